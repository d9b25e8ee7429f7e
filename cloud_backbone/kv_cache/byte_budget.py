# SPDX-License-Identifier: Apache-2.0
"""How many blocks a budget of bytes buys: every tensor that a row owns has its price.

Knows sizes; which layer gets how many blocks is the business of a budgeter.
"""

from __future__ import annotations

from cloud_backbone.kv_cache.errors import BudgetError
from cloud_backbone.kv_cache.kv_row import KVRow
from cloud_backbone.kv_cache.shelf import Shelf

PAGE_NUMBER_BYTES = 8


def block_bytes(row: KVRow, shelf: Shelf) -> int:
    """Return the bytes of one block of all KV heads on a shelf, with all that describes it."""
    codec, heads = shelf.codec, row.kv_heads
    pages = heads * (codec.key_bytes + codec.value_bytes + 2 * PAGE_NUMBER_BYTES)
    position = shelf.positions.element_size()
    return pages + codec.slots * (heads * position + row.columns.slot_bytes)


def fixed_bytes(row: KVRow) -> int:
    """Return the bytes of a row that do not grow with its limit."""
    fixed = row.pins.nbytes
    if row.sealed is not None:
        size = row.open.codec.slots
        ring = -(-(row.policy.ring + size) // size)
        fixed += ring * block_bytes(row, row.open) + row.sealed.codec.nbytes()
    return fixed


def blocks_for(row: KVRow, layers: int, budget_bytes: int) -> int:
    """Return how many blocks all layers together may have, for layers like this one.

    Raises:
        BudgetError: not even one block per layer.
    """
    block = block_bytes(row, row.open if row.sealed is None else row.sealed)
    fixed = layers * fixed_bytes(row)
    blocks = (budget_bytes - fixed) // block
    if blocks < layers:
        raise BudgetError(row.policy.name, budget_bytes, fixed + layers * block)
    return blocks


def trim(row: KVRow) -> None:
    """Give back the open blocks that are neither filled nor part of the row's fixed share."""
    if row.policy.lossless:
        return
    size = row.open.codec.slots
    ring = -(-(row.policy.ring + size) // size) if row.sealed is not None else 0
    row.open.keep_first(max(-(-row.open.tail // size), ring))

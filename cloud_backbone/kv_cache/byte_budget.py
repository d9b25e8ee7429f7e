# SPDX-License-Identifier: Apache-2.0
"""How many blocks a budget of bytes buys: every tensor that a row owns has its price.

Knows sizes; which layer gets how many blocks is the business of a budgeter.
"""

from __future__ import annotations

from cloud_backbone.kv_cache.errors import BudgetError
from cloud_backbone.kv_cache.kv_row import KVRow


def fixed_bytes(row: KVRow) -> int:
    """Return the bytes of a row that do not grow with its limit."""
    fixed = 0
    if row.sealed is not None:
        learned = sum(tier.codec.learned_bytes(row.kv_heads) for tier in row.tiers)
        fixed += row.ring_blocks * row.open.block_bytes + learned
    else:
        fixed += row.open.most_hole_bytes
    return fixed


def blocks_for(row: KVRow, layers: int, budget_bytes: int) -> int:
    """Return how many blocks all layers together may have, for layers like this one.

    Raises:
        BudgetError: not even one block per layer.
    """
    block = (row.sealed or row.open).block_bytes
    fixed = layers * fixed_bytes(row)
    blocks = (budget_bytes - fixed) // block
    if blocks < layers:
        raise BudgetError(row.policy.name, budget_bytes, fixed + layers * block)
    return blocks


def trim(row: KVRow) -> None:
    """Give back the open blocks that are neither filled nor kept for the next tokens."""
    if row.reserved:
        return
    size = row.open.codec.slots
    spare = row.policy.spare if row.sealed is None else row.ring_blocks
    filled = -(-row.open.tail // size)
    row.open.keep_first(max(filled + row.extra_blocks(filled), spare))

# SPDX-License-Identifier: Apache-2.0
"""The two halves of attention over compressed pages: queries times keys, weights times values.

Pages are read from the arena by number and decoded as they are needed; there is never a copy of
all keys or values in floats. Oaken (Kim et al., ISCA 2025) has a dequantisation engine between
memory and multipliers for this; here it is a loop. For the few query rows of decoding the loop is
compiled, and the pages' bytes are all the memory traffic. Where there is no compiled loop for a
format, or no compiler was at hand, and for the many rows of a prefill, torch decodes a chunk of
blocks and multiplies. Knows no positions, no masks and no softmax.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
import os

from cloud_backbone.kv_cache import compiled_kernel
from cloud_backbone.kv_cache.codec import Codec
from cloud_backbone.kv_cache.errors import CacheError
from torch import Tensor

VARIABLE = 'TENDON_KERNEL'
"""Environment variable: 'torch' does without the compiled loops."""
ROWS = 32
"""Query rows up to which the compiled loops are faster than torch's matrix product."""
CHUNK = 1024
"""Slots that torch decodes at a time."""


def key_scores(codec: Codec, arena: Tensor, table: Tensor, query: Tensor) -> Tensor:
    """Multiply queries with the keys of all slots.

    Args:
        codec: how the pages are written.
        arena: pages uint8 (pages, key_bytes).
        table: page of each block, int64 (kv_heads, blocks).
        query: float32 (kv_heads, rows, head_dim); the rows of all heads of a group.

    Returns:
        float32 (kv_heads, rows, blocks * slots); anything where a slot is dead.

    Raises:
        CacheError: an entry of the table names no page.
    """
    if _compiles(codec, arena, query):
        return compiled_kernel.key_scores(codec, arena, table, query)
    scores = query.new_empty(*query.shape[:2], table.shape[1] * codec.slots)
    for pages, slots in _chunks(codec, arena, table):
        scores[:, :, slots] = query @ codec.decode_key(pages).mT
    return scores


def value_mix(codec: Codec, arena: Tensor, table: Tensor, weights: Tensor) -> Tensor:
    """Sum the values of all slots by weight.

    Args:
        codec: how the pages are written.
        arena: pages uint8 (pages, value_bytes).
        table: page of each block, int64 (kv_heads, blocks).
        weights: float32 (kv_heads, rows, blocks * slots); 0 where a slot is dead, whose garbage
            then does not count, NaN included.

    Returns:
        float32 (kv_heads, rows, head_dim).

    Raises:
        CacheError: an entry of the table names no page.
    """
    if _compiles(codec, arena, weights):
        return compiled_kernel.value_mix(codec, arena, table, weights)
    mixture: Tensor | int = 0
    for pages, slots in _chunks(codec, arena, table):
        part = weights[:, :, slots]
        dead = (part == 0).all(1)  # (kv_heads, slots)
        value = codec.decode_value(pages).masked_fill(dead[..., None], 0)
        mixture = part @ value + mixture
    return mixture


@lru_cache
def is_compiled() -> bool:
    """Whether the compiled loops are there and wanted; looked up once.

    Raises:
        CacheError: the environment variable says something unknown.
    """
    wanted = os.environ.get(VARIABLE, '')
    if wanted not in ('', 'torch'):
        raise CacheError(f'{VARIABLE}={wanted!r} is not known; leave it unset, or use torch')
    return not wanted and compiled_kernel.library() is not None


def _compiles(codec: Codec, arena: Tensor, rows: Tensor) -> bool:
    """Whether the compiled loops take this call."""
    return (
        is_compiled() and rows.shape[1] <= ROWS and arena.device.type == 'cpu'
        and compiled_kernel.layout_of(codec) is not None
    )


def _chunks(codec: Codec, arena: Tensor, table: Tensor) -> Iterator[tuple[Tensor, slice]]:
    """Yield the pages (kv_heads, blocks, bytes) of some blocks, and the slots in them.

    Where there are no blocks, none are yielded once.
    """
    step = max(1, CHUNK // codec.slots)
    for first in range(0, max(table.shape[1], 1), step):
        part = table[:, first:first + step]
        if bool(((part < 0) | (part >= arena.shape[0])).any()):
            raise CacheError(f'a block lies in a page that an arena of {len(arena)} does not have')
        yield arena[part], slice(first * codec.slots, (first + part.shape[1]) * codec.slots)

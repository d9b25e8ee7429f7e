# SPDX-License-Identifier: Apache-2.0
"""Calls the compiled loops of ``kernel/`` by ctypes, which lets go of Python's lock meanwhile.

The library lies beside this file if a compiler was there when the package was built; it needs
nothing of Python or torch, so one build serves all their versions. Knows the formats of pages by
name and sizes, and does not know when the compiled loops are the better choice.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
import logging
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from cloud_backbone.kv_cache.codec import Codec
from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.oaken_edges import GroupEdges
from cloud_backbone.kv_cache.oaken_scale import decode_scale
import torch
from torch import Tensor

LIBRARY = Path(__file__).with_name('_kernel.so')
REVISION = 2
"""Of the structure below; a library of another revision is not called."""
LAYOUTS = ('float32', 'float16', 'bfloat16', 'int8', 'grouped4', 'grouped2', 'oaken')
"""Page formats, in the order of the numbers that the library knows them by."""
_LONGEST_HEAD = 512
_logger = logging.getLogger(__name__)


class _Call(ctypes.Structure):
    """Arguments of both functions: ``Call`` in kernel/attention.h."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in (
            'layout', 'lanes', 'pages', 'page_bytes', 'table_stride', 'kv_heads', 'blocks',
            'slots', 'head_dim', 'rows', 'span', 'capacity',
        )),
        *((name, ctypes.c_void_p) for name in (
            'edges', 'scales', 'arena', 'table', 'input', 'output',
        )),
    ]


@lru_cache
def library() -> Any | None:
    """Load the library; None, and a warning if it is there but of no use, where there is none."""
    if not LIBRARY.exists():
        return None
    try:
        loaded = ctypes.CDLL(str(LIBRARY))
        revision = loaded.tendon_kernel_revision()
    except (OSError, AttributeError) as error:
        _logger.warning('the compiled kernel cannot be loaded, torch serves: %s', error)
        return None
    if revision != REVISION:
        _logger.warning('the compiled kernel is of another version, torch serves; build again')
        return None
    for function in (loaded.tendon_key_scores, loaded.tendon_value_mix):
        function.argtypes, function.restype = [ctypes.POINTER(_Call)], ctypes.c_int64
    return loaded


def layout_of(codec: Codec) -> int | None:
    """Return the library's number for the pages of a codec, None if it cannot read them."""
    traits: Any = codec
    layout = str(traits.dtype).removeprefix('torch.') if codec.layout == 'raw' else codec.layout
    if layout not in LAYOUTS or not 0 < traits.head_dim <= _LONGEST_HEAD:
        return None
    if layout == 'oaken' and (traits.key.edges is None or traits.value.edges is None):
        return None
    return LAYOUTS.index(layout)


def key_scores(
    codec: Codec, arena: Tensor, table: Tensor, query: Tensor, lanes: int = 0
) -> Tensor:
    """Return q.k of the queries with each slot; see :func:`kernel.key_scores`.

    Args:
        codec: of the pages.
        arena: (pages, key_bytes).
        table: (kv_heads, blocks).
        query: (kv_heads, rows, head_dim).
        lanes: floats of a vector at most; 0 for as many as the processor has.
    """
    scores = torch.empty(*query.shape[:2], table.shape[1] * codec.slots)
    _run('tendon_key_scores', codec, 'key', arena, table, query, scores, lanes)
    return scores


def value_mix(
    codec: Codec, arena: Tensor, table: Tensor, weights: Tensor, lanes: int = 0
) -> Tensor:
    """Return the slots' values, weighted and summed; see :func:`kernel.value_mix`."""
    traits: Any = codec
    mixture = torch.empty(*weights.shape[:2], traits.head_dim)
    _run('tendon_value_mix', codec, 'value', arena, table, weights, mixture, lanes)
    return mixture


def _run(
    name: str, codec: Codec, side: str, arena: Tensor, table: Tensor, given: Tensor,
    result: Tensor, lanes: int,
) -> None:
    """Call one function.

    Raises:
        CacheError: an entry of the table names no page.
    """
    traits: Any = codec
    # Tensors stay bound to names until the call is over: the library gets their addresses.
    given = given.contiguous()
    if table.stride(1) != 1:
        table = table.contiguous()
    capacity, edges = _of_oaken(getattr(codec, side), len(table)) if codec.layout == 'oaken' \
        else (0, None)
    call = _Call(
        layout_of(codec), lanes, arena.shape[0], arena.stride(0), table.stride(0),
        table.shape[0], table.shape[1], codec.slots, traits.head_dim, given.shape[1],
        getattr(codec, 'span', traits.head_dim), capacity,
        None if edges is None else edges.data_ptr(), _scales().data_ptr(),
        arena.data_ptr(), table.data_ptr(), given.data_ptr(), result.data_ptr(),
    )
    status = getattr(library(), name)(call)
    if status < 0:
        raise MemoryError('the compiled kernel found no memory')
    if status:
        raise CacheError(
            f'{status} blocks lie in pages that an arena of {call.pages} does not have'
        )


@lru_cache
def _scales() -> Tensor:
    """Return what Oaken's codes of scales stand for (256,)."""
    return decode_scale(torch.arange(256, dtype=torch.uint8))


_rows_of_edges: WeakKeyDictionary[GroupEdges, Tensor] = WeakKeyDictionary()


def _of_oaken(side: Any, kv_heads: int) -> tuple[int, Tensor]:
    """Return sparse bytes of a page, and centre, half and widths (kv_heads, 4) of one side."""
    edges: GroupEdges = side.edges
    if len(edges) != kv_heads:
        raise CacheError(f'thresholds are for {len(edges)} KV heads, the pages of {kv_heads}')
    rows = _rows_of_edges.get(edges)
    if rows is None:
        columns = (edges.centre, edges.half, *edges.width.unbind(-1))
        rows = _rows_of_edges[edges] = torch.stack(columns, -1).contiguous()
    return side.page.capacity, rows

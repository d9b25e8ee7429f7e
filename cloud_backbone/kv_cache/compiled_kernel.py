# SPDX-License-Identifier: Apache-2.0
"""Calls the compiled loops of ``kernel/`` by ctypes, which lets go of Python's lock meanwhile.

The library lies beside this file if a compiler was there when the package was built; it needs
nothing of Python or torch, so one build serves all their versions. Knows page formats by name
only, and does not know when the compiled loops are the better choice.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
import logging
from pathlib import Path
from typing import Any

from cloud_backbone.kv_cache.codec import Codec
from cloud_backbone.kv_cache.errors import CacheError
import torch
from torch import Tensor

LIBRARY = Path(__file__).with_name('_kernel.so')
REVISION = 1
"""Of the structure below; a library of another revision is not called."""
LAYOUTS = ('float32', 'float16', 'bfloat16', 'int8', 'grouped4', 'grouped2')
"""Page formats, in the order of the numbers that the library knows them by."""
_LONGEST_HEAD = 512
_logger = logging.getLogger(__name__)


class _Call(ctypes.Structure):
    """Arguments of both functions: ``Call`` in kernel/attention.cc."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in (
            'layout', 'lanes', 'pages', 'page_bytes', 'table_stride', 'kv_heads', 'blocks',
            'slots', 'head_dim', 'span', 'rows',
        )),
        *((name, ctypes.c_void_p) for name in ('arena', 'table', 'input', 'output')),
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
    kv_heads, rows, _ = query.shape
    scores = torch.empty(kv_heads, rows, table.shape[1] * codec.slots)
    _run('tendon_key_scores', codec, arena, table, query, scores, lanes)
    return scores


def value_mix(
    codec: Codec, arena: Tensor, table: Tensor, weights: Tensor, lanes: int = 0
) -> Tensor:
    """Return the slots' values, weighted and summed; see :func:`kernel.value_mix`."""
    traits: Any = codec
    mixture = torch.empty(*weights.shape[:2], traits.head_dim)
    _run('tendon_value_mix', codec, arena, table, weights, mixture, lanes)
    return mixture


def _run(
    name: str, codec: Codec, arena: Tensor, table: Tensor, given: Tensor, result: Tensor,
    lanes: int,
) -> None:
    """Call one function.

    Raises:
        CacheError: an entry of the table names no page.
    """
    traits: Any = codec
    given = given.contiguous()
    if table.stride(1) != 1:
        table = table.contiguous()
    call = _Call(
        layout_of(codec), lanes, arena.shape[0], arena.stride(0), table.stride(0),
        table.shape[0], table.shape[1], codec.slots, traits.head_dim,
        getattr(codec, 'span', 1), given.shape[1],
        arena.data_ptr(), table.data_ptr(), given.data_ptr(), result.data_ptr(),
    )
    status = getattr(library(), name)(call)
    if status < 0:
        raise MemoryError('the compiled kernel found no memory')
    if status:
        raise CacheError(
            f'{status} blocks lie in pages that an arena of {call.pages} does not have'
        )

# SPDX-License-Identifier: Apache-2.0
"""Counts the bytes of every tensor that somebody else's cache holds.

The bench computes in single precision so that errors are the methods' own. The caches of others
store what the model computes; a model that is served computes in 16 bits. So floating numbers of
others are counted at 16 bits, which is to their favour, and codes as they are.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor


def resident_bytes(*holders: Any) -> int:
    """Return the bytes of all distinct tensors in objects, at most 16 bits a floating number."""
    found = {
        (tensor.data_ptr(), tensor.numel()): tensor
        for holder in holders for tensor in _tensors(holder, set()) if tensor.numel()
    }
    return sum(
        tensor.numel() * min(tensor.element_size(), 2 if tensor.is_floating_point() else 8)
        for tensor in found.values()
    )


def _tensors(holder: Any, visited: set[int]) -> Iterator[Tensor]:
    if id(holder) in visited:
        return
    visited.add(id(holder))
    for part in _parts(holder):
        if isinstance(part, Tensor) and not hasattr(part, '__tensor_flatten__'):
            yield part
        else:
            yield from _tensors(part, visited)


def _parts(holder: Any) -> list[Any]:
    """Return what an object holds: a wrapped tensor its inner ones, a container its values."""
    if hasattr(holder, '__tensor_flatten__'):
        names, _ = holder.__tensor_flatten__()
        return [getattr(holder, name) for name in names]
    if isinstance(holder, Mapping):
        return list(holder.values())
    if isinstance(holder, (list, tuple)):
        return list(holder)
    is_cache = type(holder).__module__.startswith('transformers.cache_utils')
    return list(vars(holder).values()) if is_cache else []

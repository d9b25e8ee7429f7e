# SPDX-License-Identifier: Apache-2.0
"""Finds every tensor and every page that an object leads to; believes no accounting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.key_bias import KeyBias
from cloud_backbone.kv_cache.kv_session import KVSession
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.kv_cache.shelf import Shelf
from torch import nn, Tensor

NOT_OWNED = (BlockPool, Policy, nn.Module, KeyBias)
"""What sessions share. Pages are counted apart; the bias is the model's."""


def owned_bytes(session: KVSession) -> int:
    """Return the bytes of all memory that a session's tensors keep alive, pages included [B].

    A tensor counts with the whole of its memory, of which it may show a part.
    """
    arenas = {arena.memory.untyped_storage().data_ptr() for arena in session.pool._arenas.values()}
    memory = {
        thing.untyped_storage().data_ptr(): thing.untyped_storage().nbytes()
        for thing in _walk(session, set()) if isinstance(thing, Tensor)
    }
    loose = sum(size for address, size in memory.items() if address not in arenas)
    return loose + page_bytes(session)


def page_bytes(session: KVSession) -> int:
    """Return the bytes of the pages that a session has a share in [B]."""
    total = 0
    for shelf in _walk(session, set()):
        if isinstance(shelf, Shelf):
            total += shelf.key_pages.unique().numel() * shelf.codec.key_bytes
            total += shelf.value_pages.unique().numel() * shelf.codec.value_bytes
    return total


def _walk(thing: Any, seen: set[int]) -> Iterator[Any]:
    """Yield an object and everything that its attributes and items lead to, once each."""
    if id(thing) in seen or isinstance(thing, NOT_OWNED):
        return
    seen.add(id(thing))
    yield thing
    if isinstance(thing, Tensor):
        return
    if isinstance(thing, Mapping):
        parts = list(thing.values())
    elif isinstance(thing, (list, tuple, set)):
        parts = list(thing)
    else:
        parts = list(getattr(thing, '__dict__', {}).values())
        for kind in type(thing).__mro__:
            parts += [getattr(thing, name, None) for name in getattr(kind, '__slots__', ())]
    for part in parts:
        yield from _walk(part, seen)

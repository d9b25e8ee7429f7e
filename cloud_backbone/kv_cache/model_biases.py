# SPDX-License-Identifier: Apache-2.0
"""Which attention modules have a key bias, and where their tokens stand.

Looks a model through once: every decoder with ``layers`` and a ``rotary_emb``. A hook on the
embedding notes the positions that it is given, which reach the attention function on no other
way: with M-RoPE the library passes it text positions or none. What is known of a module is kept
outside of it and goes with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextvars import ContextVar
import sys
from typing import Any
import weakref

from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.key_bias import KeyBias
from cloud_backbone.kv_cache.rotary_table import RotaryTable
import torch
from torch import Tensor

SPOTS: ContextVar[Tensor | None] = ContextVar('spots', default=None)
"""Rotary positions (axes, batch or 1, tokens) of the forward pass of this thread."""

_BIASES: weakref.WeakKeyDictionary[Any, KeyBias | CacheError] = weakref.WeakKeyDictionary()
_HOOKS: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def collect(model: Any) -> None:
    """Find the key biases of a model; what was known of it before is forgotten."""
    forget(model)
    for decoder in _decoders(model):
        table: RotaryTable | CacheError | None = None
        for module in _biased(decoder):
            if table is None:
                table = _table(decoder.rotary_emb, module)
                _HOOKS[decoder.rotary_emb] = decoder.rotary_emb.register_forward_pre_hook(
                    _note, with_kwargs=True
                )
            bias = module.k_proj.bias.view(-1, module.head_dim)
            _BIASES[module] = table if isinstance(table, CacheError) else KeyBias(bias, table)


def forget(model: Any) -> None:
    """Undo ``collect``."""
    for decoder in _decoders(model):
        hook = _HOOKS.pop(decoder.rotary_emb, None)
        if hook is not None:
            hook.remove()
        for module in decoder.modules():
            _BIASES.pop(module, None)


def bias_of(module: Any) -> KeyBias | None:
    """Return the key bias of an attention module; None if it has none.

    Raises:
        CacheError: there is one, but it cannot be taken out.
    """
    found = _BIASES.get(module)
    if isinstance(found, CacheError):
        raise CacheError(
            f'{found}, so its key bias cannot be taken out; a Policy with bias_aware=False '
            f'leaves it in'
        )
    return found


def biases_of(model: Any) -> dict[int, KeyBias]:
    """Return the key biases of an attached model by layer; empty where its keys have none.

    Raises:
        CacheError: there are some, but they cannot be taken out.
    """
    return {
        int(module.layer_idx): bias
        for decoder in _decoders(model) for module in decoder.layers.modules()
        if module in _BIASES and (bias := bias_of(module)) is not None
    }


def spots_of(row: int, tokens: int) -> Tensor:
    """Return the rotary positions (axes, tokens) of one row of the batch.

    Raises:
        CacheError: the attention module was called without its rotary embedding.
    """
    spots = SPOTS.get()
    if spots is None or spots.shape[2] != tokens:
        seen = 'none' if spots is None else str(spots.shape[2])
        raise CacheError(f'rotary positions of {tokens} tokens are wanted, {seen} were given')
    return spots[:, min(row, spots.shape[1] - 1)]


def _note(rotary: Any, given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    spots = named['position_ids'] if 'position_ids' in named else given[1]
    spots = spots.detach().long()
    SPOTS.set(spots if spots.ndim == 3 else spots[None])


def _decoders(model: Any) -> Iterator[Any]:
    for module in model.modules():
        if hasattr(module, 'rotary_emb') and hasattr(module, 'layers'):
            yield module


def _biased(decoder: Any) -> Iterator[Any]:
    """Yield the attention modules whose keys have a bias other than zero."""
    for module in decoder.layers.modules():
        bias = getattr(getattr(module, 'k_proj', None), 'bias', None)
        # A norm behind the projection makes the bias a part of something else.
        if bias is not None and hasattr(module, 'head_dim') and not hasattr(module, 'k_norm'):
            if bool((bias != 0).any()):
                yield module


def _table(rotary: Any, module: Any) -> RotaryTable | CacheError:
    rotate = getattr(sys.modules[type(module).__module__], 'apply_rotary_pos_emb', None)
    with torch.inference_mode(False):
        try:
            return RotaryTable(rotary, rotate, module.k_proj.bias.dtype)
        except CacheError as error:
            return error

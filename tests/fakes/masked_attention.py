# SPDX-License-Identifier: Apache-2.0
"""Full attention with the dropped slots masked: what a model must compute over a compressed cache.

An oracle keeps every token in the library's own DynamicCache. Before each step it looks up which
tokens the compressed cache still holds, per layer and head, and its attention, written out by
hand, hides the others. Under a codec it attends to the decoded numbers instead of its own.
"""

from __future__ import annotations

from contextvars import ContextVar
import copy
from dataclasses import dataclass
from typing import Any

from cloud_backbone.kv_cache.compressed_cache import CompressedCache
from cloud_backbone.kv_cache.kv_row import KVRow
import torch
from torch import Tensor
from transformers import AttentionInterface, DynamicCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from tests.fakes.tiny_models import Family

NAME = 'masked_reference'


@dataclass(frozen=True)
class Held:
    """What one layer of a compressed cache still holds of its past."""

    alive: Tensor
    """(batch, kv_heads, columns), bool."""
    key: Tensor
    """Decoded (batch, kv_heads, columns, head_dim), zero where dead."""
    value: Tensor
    exact: bool
    """Whether held numbers must be those that the model computed."""


HELD: ContextVar[dict[int, Held]] = ContextVar('held')


class Oracle:
    """Computes with full attention what a compressed cache should give."""

    def __init__(self, family: Family, cache: CompressedCache) -> None:
        AttentionInterface.register(NAME, _attention)
        AttentionMaskInterface.register(NAME, sdpa_mask)
        self._family, self._compressed = family, cache
        self._model = copy.deepcopy(family.model)
        own = self._model.config is self._model.config.get_text_config(decoder=True)
        self._model.set_attn_implementation(NAME if own else {'text_config': NAME})
        self.cache = DynamicCache(config=self._model.config)
        self.error = 0.0
        """Largest error of a held key or value, relative to the largest number of its layer."""
        self.dropped = 0
        """Most tokens of a head of a layer that a step had to do without."""

    def __call__(self, **inputs: Any) -> Tensor:
        """Return the logits of the next step; call it before the compressed cache steps."""
        past = self.cache.get_seq_length()
        mask = inputs.get('attention_mask')
        sessions = self._compressed.sessions
        held = {}
        for layer in sessions[0].rows if sessions else ():
            rows = [session.rows[layer] for session in sessions]
            held[layer] = _held(rows, None if mask is None else mask[:, :past].bool(), past)
            self._compare(layer, held[layer], mask)
        HELD.set(held)
        return self._family(self.cache, self._model, **inputs)

    def _compare(self, layer: int, held: Held, mask: Tensor | None) -> None:
        own = self.cache.layers[layer]
        for mine, decoded in ((own.keys, held.key), (own.values, held.value)):
            error = (mine - decoded)[held.alive].abs().flatten() / mine.abs().max()
            self.error = max([self.error, *error.tolist()])
        gone = (~held.alive).sum(2)
        if mask is not None:
            gone = gone - (mask[:, : held.alive.shape[2]] == 0).sum(1)[:, None]
        self.dropped = max(self.dropped, int(gone.max()))


def _held(rows: list[KVRow], real: Tensor | None, columns: int) -> Held:
    heads, width = rows[0].kv_heads, rows[0].head_dim
    alive = torch.zeros(len(rows), heads, columns, dtype=torch.bool)
    key = torch.zeros(len(rows), heads, columns, width)
    value = torch.zeros_like(key)
    for batch, row in enumerate(rows):
        places = torch.arange(columns) if real is None else real[batch].nonzero()[:, 0]
        assert len(places) == row.seen, 'a row has not seen the tokens that came'
        for shelf in row.shelves:
            head, slot = shelf.alive.nonzero(as_tuple=True)
            column = places[shelf.positions[head, slot].long()]
            assert not alive[batch, head, column].any(), 'a token lies on two shelves'
            alive[batch, head, column] = True
            keys, values = shelf.raw()
            if row.bias is not None:
                spots = shelf.positions.clamp(min=0).flatten()
                nothing = torch.zeros(heads, len(spots), width)
                bias = -row.bias.remove(nothing, row.rope.of(spots))
                keys += bias.view(heads, heads, -1, width).diagonal(dim1=0, dim2=1).movedim(-1, 0)
            key[batch, head, column] = keys[head, slot]
            value[batch, head, column] = values[head, slot]
        slots = sum(int(shelf.alive.sum()) for shelf in row.shelves)
        assert slots == int(alive[batch].sum()), 'a token lies in two slots of a head'
    return Held(alive, key, value, not rows[0].tiers)


def _attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor,
    attention_mask: Tensor | None, scaling: float | None = None, **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend by hand, with masks of the library and of what is held."""
    layer: Any = module.layer_idx
    if getattr(module, 'sliding_window', None) is not None and module.is_sliding:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
    tokens, columns = query.shape[2], key.shape[2]
    visible = torch.ones(tokens, columns, dtype=torch.bool).tril(columns - tokens)
    if attention_mask is not None:
        visible = attention_mask
    held = HELD.get().get(layer)
    if held is not None:
        past = columns - tokens
        fresh = held.alive.new_ones(*held.alive.shape[:2], tokens)
        alive = torch.cat([held.alive, fresh], 2)
        visible = visible & alive.repeat_interleave(query.shape[1] // key.shape[1], 1)[:, :, None]
        if not held.exact:
            key = torch.cat([held.key, key[:, :, past:]], 2)
            value = torch.cat([held.value, value[:, :, past:]], 2)
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    logits = query @ key.mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    weights = logits.masked_fill(~visible, -torch.inf).softmax(-1).nan_to_num()
    return (weights @ value).transpose(1, 2), None

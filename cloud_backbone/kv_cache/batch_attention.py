# SPDX-License-Identifier: Apache-2.0
"""Attention of a batch: each row on its own session, padding left out of every cache.

Turns masks into facts about one row: which of the new tokens are real, and whom of the new tokens
each of them sees. All real tokens of the past are seen; a mask that hides some is refused.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any
import weakref

from cloud_backbone.kv_cache.attend import Attention, Fresh
from cloud_backbone.kv_cache.attend_one import attend_one
from cloud_backbone.kv_cache.cake import Cake, preference
from cloud_backbone.kv_cache.errors import MaskError
from cloud_backbone.kv_cache.key_bias import KeyBias
from cloud_backbone.kv_cache.kv_row import KVRow
from cloud_backbone.kv_cache.kv_session import KVSession
from cloud_backbone.kv_cache.kv_store import KVStore
from cloud_backbone.kv_cache.model_biases import bias_of, spots_of
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.integrations.sdpa_attention import sdpa_attention_forward

LEARNED = 8
"""Tokens from which on a codec learns from their queries; single steps would cost too much."""


@dataclass(frozen=True)
class _Visible:
    """What one row of a mask says."""

    past: int
    """Tokens of the past that are seen."""
    places: Tensor | slice | None
    """Where the real new tokens stand (tokens,), or from where to where; None: all are real."""
    allowed: Tensor | None
    """Whom of the real new tokens each of them sees (tokens, tokens); None: those before it."""


@dataclass(frozen=True)
class _MaskRead:
    """Rows of one mask, read once for all layers of a forward."""

    mask: weakref.ref[Tensor]
    columns: int
    rows: dict[int, _Visible] = field(default_factory=dict)


_READ: ContextVar[_MaskRead | None] = ContextVar('mask', default=None)


def attend_batch(
    store: KVStore, module: Any, query: Tensor, key: Tensor, value: Tensor,
    mask: Tensor | None, scaling: float | None, softcap: float | None,
) -> Tensor:
    """Attend and let the sessions take the new tokens in.

    Args:
        store: the layer.
        module: the attention module that asks.
        query: (batch, heads, tokens, head_dim).
        key: (batch, kv_heads, tokens, head_dim).
        value: as ``key``.
        mask: True where a token sees a column (batch or 1, 1, tokens, columns), or None.
        scaling: factor of the logits; None: head_dim ** -0.5.
        softcap: bound of the logits, if any.

    Returns:
        Output (batch, tokens, heads, head_dim).

    Raises:
        MaskError: the mask hides tokens of the past.
        NonFiniteError: the model computed NaN or infinity.
        PoolFullError: there is no page left.

    On any error the sessions of the batch are closed: some layers have taken the tokens in, some
    have not, and their pages are free for others.
    """
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    try:
        return _attend_rows(store, module, (query, key, value), mask, scale, softcap)
    except BaseException:
        store.owner.abandon()
        raise


def _attend_rows(
    store: KVStore, module: Any, states: tuple[Tensor, Tensor, Tensor], mask: Tensor | None,
    scale: float, softcap: float | None,
) -> Tensor:
    query, key, value = states
    # What is kept must not become a tensor that only inference mode may change.
    with torch.inference_mode(False), torch.no_grad():
        outputs = []
        bias = _bias(store, module)
        for index, session in enumerate(store.sessions()):
            spots = None if bias is None else spots_of(index, query.shape[2])
            fresh = Fresh(query[index], key[index], value[index], None, scale, softcap, spots)
            if mask is None:
                outputs.append(_attend_row(session, store.layer, module, fresh, bias))
                continue
            visible = _read_mask(mask, index, store.columns)
            _check_past(visible.past, session, store.layer)
            fresh = _real(fresh, visible)
            output = _attend_row(session, store.layer, module, fresh, bias)
            outputs.append(_spread(output, visible.places, query.shape[2]))
        store.taken()
        return outputs[0][None] if len(outputs) == 1 else torch.stack(outputs)


def _read_mask(mask: Tensor, index: int, columns: int) -> _Visible:
    """Return what a mask says of a batch row."""
    read = _READ.get()
    if read is None or read.mask() is not mask or read.columns != columns:
        read = _MaskRead(weakref.ref(mask), columns)
        _READ.set(read)
    if index not in read.rows:
        read.rows[index] = _visible(mask[min(index, mask.shape[0] - 1), 0], columns)
    return read.rows[index]


def _visible(mask: Tensor, columns: int) -> _Visible:
    if mask.dtype != torch.bool:
        mask = mask == 0
    real, allowed = mask[-1, columns:], mask[:, columns:]
    places = None
    if not bool(real.all()):
        places = _where(real)
        allowed = allowed[places][:, places]
    causal = bool((allowed == torch.ones_like(allowed).tril()).all())
    return _Visible(int(mask[-1, :columns].sum()), places, None if causal else allowed)


def _where(real: Tensor) -> Tensor | slice:
    """Return the places of real tokens; as a slice where nothing stands between them."""
    places = real.nonzero()[:, 0]
    if not len(places):
        return slice(0, 0)
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first < len(places) else places


def _check_past(past: int, session: KVSession, layer: int) -> None:
    row = session.rows.get(layer)
    seen = 0 if row is None else row.seen
    if past != seen:
        raise MaskError(
            f'the mask shows {past} tokens of the past, the cache of layer {layer} has seen {seen}'
        )


def _real(fresh: Fresh, visible: _Visible) -> Fresh:
    """Return the real tokens alone."""
    places = visible.places
    if places is None:
        return replace(fresh, allowed=visible.allowed)
    return replace(
        fresh, query=fresh.query[:, places], key=fresh.key[:, places],
        value=fresh.value[:, places], allowed=visible.allowed,
        spots=None if fresh.spots is None else fresh.spots[:, places],
    )


def _spread(output: Tensor, places: Tensor | slice | None, tokens: int) -> Tensor:
    """Put the output of real tokens in its places (tokens, heads, head_dim), zeros elsewhere."""
    if places is None:
        return output
    spread = output.new_zeros(tokens, *output.shape[1:])
    spread[places] = output
    return spread


def _bias(store: KVStore, module: Any) -> KeyBias | None:
    """Return the bias that keys are stored without; None where they are stored as they are."""
    policy = store.sessions()[0].policy
    return bias_of(module) if policy.make_codec is not None and policy.bias_aware else None


def _attend_row(
    session: KVSession, layer: int, module: Any, fresh: Fresh, bias: KeyBias | None
) -> Tensor:
    """Return the output (tokens, heads, head_dim)."""
    kv_heads, tokens, head_dim = fresh.key.shape
    row = session.row(layer, kv_heads, head_dim, fresh.key.dtype, bias)
    if tokens == 0:
        return fresh.query.transpose(0, 1)
    row.check(fresh.key, fresh.value)
    if row.bias is not None and fresh.spots is not None:
        session.place(layer, fresh.spots)
    if row.policy.lossless and fresh.softcap is None and row.complete:
        session.take(layer, fresh.key, fresh.value, {})
        if tokens == 1 and row.reserved:  # in place, and equal but for rounding
            return attend_one(row, fresh.query, fresh.scaling, None).transpose(0, 1)
        return _attend_exactly(row, module, fresh)
    if tokens == 1 and row.keeps(fresh.key) and session.has_room(layer):
        session.admit(layer, fresh.key, fresh.value)
        output = attend_one(row, fresh.query, fresh.scaling, fresh.softcap)
        session.make_way(layer)
        return output.transpose(0, 1)
    if tokens >= LEARNED:
        row.learn(fresh.query.reshape(kv_heads, -1, head_dim))
    output, seen = Attention(row, fresh).run()
    wanted = _preference(row, seen.window, tokens)
    session.take(layer, fresh.key, fresh.value, seen.columns, wanted)
    return output.transpose(0, 1)


def _attend_exactly(row: KVRow, module: Any, fresh: Fresh) -> Tensor:
    """Attend as the library does over one joint tensor: the same bits."""
    key, value = row.open.in_order()
    tokens, slots = fresh.query.shape[1], key.shape[1]
    allowed = fresh.allowed
    if allowed is None and 1 < tokens < slots:
        allowed = _causal(tokens, slots)
    elif allowed is not None:
        past = allowed.new_ones(tokens, slots - tokens)
        allowed = torch.cat([past, allowed], 1)
    if allowed is not None and key.device.type == 'cpu':
        # The library repeats keys and values for each query head first; the bits are the same.
        mixed = F.scaled_dot_product_attention(
            fresh.query[None], key[None], value[None], allowed[None, None],
            scale=fresh.scaling, enable_gqa=True,
        )
        return mixed[0].transpose(0, 1)
    output, _ = sdpa_attention_forward(
        module, fresh.query[None], key[None], value[None],
        None if allowed is None else allowed[None, None], scaling=fresh.scaling,
    )
    return output[0]


@lru_cache(maxsize=4)
def _causal(tokens: int, slots: int) -> Tensor:
    """Return whom the last tokens see: all slots up to themselves (tokens, slots)."""
    return torch.ones(tokens, slots, dtype=torch.bool).tril(slots - tokens)


def _preference(row: KVRow, window: Tensor | None, tokens: int) -> float | None:
    """Return how much the layer wants, if a prefill of some length tells."""
    scorer = row.policy.scorer
    if not isinstance(scorer, Cake) or window is None:
        return None
    if row.seen and tokens <= row.recent:
        return None
    return preference(window, window.shape[-1] - window.shape[2])

# SPDX-License-Identifier: Apache-2.0
"""Attention of a batch: each row on its own session, padding left out of every cache.

Turns masks into facts about one row: which of the new tokens are real, and whom of the new tokens
each of them sees. All real tokens of the past are seen; a mask that hides some is refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cloud_backbone.kv_cache.attend import Attention, Fresh, part_columns
from cloud_backbone.kv_cache.cake import Cake, preference
from cloud_backbone.kv_cache.errors import MaskError
from cloud_backbone.kv_cache.key_bias import KeyBias
from cloud_backbone.kv_cache.kv_row import KVRow
from cloud_backbone.kv_cache.kv_session import KVSession
from cloud_backbone.kv_cache.kv_store import KVStore
from cloud_backbone.kv_cache.model_biases import bias_of, spots_of
import torch
from torch import Tensor
from transformers.integrations.sdpa_attention import sdpa_attention_forward

LEARNED = 8
"""Tokens from which on a codec learns from their queries; single steps would cost too much."""


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
        for session in store.sessions():
            session.close()
        raise


def _attend_rows(
    store: KVStore, module: Any, states: tuple[Tensor, Tensor, Tensor], mask: Tensor | None,
    scale: float, softcap: float | None,
) -> Tensor:
    query, key, value = states
    # What is kept must not become a tensor that only inference mode may change.
    with torch.inference_mode(False), torch.no_grad():
        outputs = query.new_zeros(query.shape[0], query.shape[2], *query.shape[1::2])
        bias = _bias(store, module)
        for index, session in enumerate(store.sessions()):
            spots = None if bias is None else spots_of(index, query.shape[2])
            fresh = Fresh(query[index], key[index], value[index], None, scale, softcap, spots)
            real = None
            if mask is not None:
                rows = mask[min(index, mask.shape[0] - 1), 0]
                fresh, real = _read_mask(fresh, rows, store.columns, session, store.layer)
            output = _attend_row(session, store.layer, module, fresh, bias)
            if real is None:
                outputs[index] = output
            else:
                outputs[index, real] = output
        store.taken()
    return outputs


def _read_mask(
    fresh: Fresh, mask: Tensor, columns: int, session: KVSession, layer: int
) -> tuple[Fresh, Tensor]:
    """Return the real tokens alone, and where they stand (tokens,)."""
    if mask.dtype != torch.bool:
        mask = mask == 0
    real = mask[-1, columns:]
    row = session.rows.get(layer)
    seen = 0 if row is None else row.seen
    if int(mask[-1, :columns].sum()) != seen:
        raise MaskError(
            f'the mask shows {int(mask[-1, :columns].sum())} tokens of the past, the cache of '
            f'layer {layer} has seen {seen}'
        )
    allowed = mask[:, columns:]
    if not bool(real.all()):
        places = real.nonzero()[:, 0]
        allowed = allowed[places][:, places]
        fresh = replace(
            fresh, query=fresh.query[:, places], key=fresh.key[:, places],
            value=fresh.value[:, places],
            spots=None if fresh.spots is None else fresh.spots[:, places],
        )
    causal = bool((allowed == torch.ones_like(allowed).tril()).all())
    return replace(fresh, allowed=None if causal else allowed), real


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
        return _attend_exactly(row, module, fresh)
    if row.sealed is not None and tokens >= LEARNED:
        row.sealed.codec.learn(fresh.query.reshape(kv_heads, -1, head_dim))
    shelves = row.shelves
    output, seen = Attention(row, fresh).run()
    columns = part_columns(shelves, seen.columns)
    session.take(layer, fresh.key, fresh.value, columns, _preference(row, seen.window, tokens))
    return output.transpose(0, 1)


def _attend_exactly(row: KVRow, module: Any, fresh: Fresh) -> Tensor:
    """Attend as the library does over one joint tensor: the same bits."""
    key, value = row.open.in_order()
    tokens, slots = fresh.query.shape[1], key.shape[1]
    allowed = fresh.allowed
    if tokens > 1 and slots > tokens:
        fresh_part = allowed
        if fresh_part is None:
            fresh_part = torch.ones(tokens, tokens, dtype=torch.bool).tril()
        past = fresh_part.new_ones(tokens, slots - tokens)
        allowed = torch.cat([past, fresh_part], 1)
    output, _ = sdpa_attention_forward(
        module, fresh.query[None], key[None], value[None],
        None if allowed is None else allowed[None, None], scaling=fresh.scaling,
    )
    return output[0]


def _preference(row: KVRow, window: Tensor | None, tokens: int) -> float | None:
    """Return how much the layer wants, if a prefill of some length tells."""
    scorer = row.policy.scorer
    if not isinstance(scorer, Cake) or window is None:
        return None
    if row.seen and tokens <= row.policy.recent:
        return None
    return preference(window, window.shape[-1] - window.shape[2])

# SPDX-License-Identifier: Apache-2.0
"""One layer of a session as named tensors and plain words, and back, bit for bit.

Of open slots that were never written nothing is taken: they hold what another session left. Knows
no file and no other layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.key_bias import KeyBias
from cloud_backbone.kv_cache.kv_row import KVRow
from cloud_backbone.kv_cache.kv_session import KVSession
from cloud_backbone.kv_cache.open_shelf import OpenShelf
from cloud_backbone.kv_cache.shelf import Shelf
import torch
from torch import Tensor

Tensors = dict[str, Tensor]
DTYPES = {'float32': torch.float32, 'float16': torch.float16, 'bfloat16': torch.bfloat16}


def take_row(row: KVRow) -> tuple[Tensors, dict[str, Any]]:
    """Return copies of all tensors of a row by name, and what else it is, as JSON knows it."""
    tensors = {f'open.{name}': tensor for name, tensor in _take_open(row.open).items()}
    tiers = []
    for index, tier in enumerate(row.tiers):
        parts = _take_tier(tier)
        tensors |= {f'tier{index}.{name}': tensor for name, tensor in parts.items()}
        tiers.append({**_format(tier), 'has_dead': tier.has_dead})
    return tensors, {
        'kv_heads': row.kv_heads, 'head_dim': row.head_dim,
        'dtype': str(row.open.codec.dtype).removeprefix('torch.'),
        'seen': row.seen, 'reserved': row.reserved, 'biased': row.bias is not None,
        'open': {'blocks': row.open.blocks, 'has_dead': row.open.has_dead}, 'tiers': tiers,
    }


def put_row(
    session: KVSession, layer: int, tensors: Mapping[str, Tensor], meta: Mapping[str, Any],
    bias: KeyBias | None,
) -> None:
    """Add a layer to a session as ``take_row`` found it.

    Args:
        session: has no such layer yet.
        layer: index of the layer.
        tensors: by the names that ``take_row`` gave.
        meta: what it returned beside them.
        bias: of the model's keys in this layer, if any.

    Raises:
        CacheError: the policy has other codecs or shared tables, or the bias is not given.
        PoolFullError: there is no page left.
    """
    if meta['biased'] and bias is None:
        raise CacheError(f'keys of layer {layer} lie there without their bias: give it')
    row = session.row(
        layer, meta['kv_heads'], meta['head_dim'], DTYPES[meta['dtype']],
        bias if meta['biased'] else None,
    )
    wanted, given = [_format(tier) for tier in row.tiers], [
        {name: said[name] for name in ('layout', 'slots', 'key_bytes', 'value_bytes')}
        for said in meta['tiers']
    ]
    if wanted != given:
        raise CacheError(f'layer {layer} was encoded as {given}, this policy encodes as {wanted}')
    _put_open(row.open, _within('open.', tensors), meta['open'])
    for index, (tier, said) in enumerate(zip(row.tiers, meta['tiers'], strict=True)):
        _put_tier(tier, _within(f'tier{index}.', tensors), said['has_dead'])
    row.seen, row.reserved = meta['seen'], meta['reserved']


def _format(tier: Shelf) -> dict[str, Any]:
    codec = tier.codec
    return {
        'layout': codec.layout, 'slots': codec.slots, 'key_bytes': codec.key_bytes,
        'value_bytes': codec.value_bytes,
    }


def _take_open(shelf: OpenShelf) -> Tensors:
    key, value = shelf.in_order()
    parts = {'key': key, 'value': value, 'positions': shelf.positions[:, : shelf.tail]}
    parts |= {f'column.{name}': column[:, : shelf.tail] for name, column in shelf.columns.items()}
    if shelf.holes is not None:
        parts['holes'] = shelf.holes
    return {name: part.clone(memory_format=torch.contiguous_format).cpu()
            for name, part in parts.items()}


def _put_open(shelf: OpenShelf, parts: Tensors, meta: Mapping[str, Any]) -> None:
    shelf.extend(meta['blocks'])
    if meta['blocks']:
        shelf.put_slots(
            parts['key'], parts['value'], parts['positions'], _within('column.', parts),
            parts.get('holes'),
        )
    shelf.has_dead = meta['has_dead']


def _take_tier(tier: Shelf) -> Tensors:
    learned = {f'codec.{name}': tensor.clone() for name, tensor in tier.codec.tensors().items()}
    if not tier.blocks:
        return learned
    return {
        **learned, 'key': tier.key_arena[tier.key_pages].cpu(),
        'value': tier.value_arena[tier.value_pages].cpu(), 'positions': tier.positions.clone(),
        **{f'column.{name}': column.clone() for name, column in tier.columns.items()},
    }


def _put_tier(tier: Shelf, parts: Tensors, has_dead: bool) -> None:
    learned = _within('codec.', parts)
    tier.codec.load({name: tensor.clone() for name, tensor in learned.items()})
    if 'key' in parts:
        tier.put_pages(
            parts['key'], parts['value'], parts['positions'], _within('column.', parts)
        )
    tier.has_dead = has_dead


def _within(prefix: str, tensors: Mapping[str, Tensor]) -> Tensors:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items()
            if name.startswith(prefix)}

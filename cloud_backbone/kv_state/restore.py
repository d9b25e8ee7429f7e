# SPDX-License-Identifier: Apache-2.0
"""A snapshot becomes a state again: bit for bit, or from its tokens, and then it says why.

Keys and values of another model, of another policy or of damaged bytes are never used. Where the
token ids still mean the same, ``REPREFILL`` computes the state anew from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import auto, Enum
from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.errors import CacheError, PoolFullError
from cloud_backbone.kv_cache.key_bias import KeyBias
from cloud_backbone.kv_cache.model_biases import biases_of
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.kv_cache.session_image import put_image, SessionImage
from cloud_backbone.kv_state.errors import Corrupt, FingerprintMismatch, KeysLost
from cloud_backbone.kv_state.exactness import Exactness, Grade
from cloud_backbone.kv_state.fingerprint import Fingerprint
from cloud_backbone.kv_state.gate import CLOSED, Gate
from cloud_backbone.kv_state.held_cache import Checkpoint
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.ledger import Ledger
from cloud_backbone.kv_state.segment import Segment, SegmentImage
from cloud_backbone.kv_state.snapshot import Belongings, Snapshot, TOKENS_ONLY
from cloud_backbone.kv_state.state_model import StateModel
from cloud_backbone.kv_state.taint import Taint
import torch
from torch import Tensor

NEEDED = ('rng',)
"""Tensors that cannot be computed again."""


class Fallback(Enum):
    """What to do where keys and values cannot be used."""

    REFUSE = auto()
    REPREFILL = auto()


@dataclass(frozen=True)
class Restored:
    """A state that goes on, and how it was brought back."""

    state: KVState
    belongings: Belongings
    tokens_computed: int = 0
    """Tokens that went through the model; 0: the state is bit for bit as it was."""
    reason: str = ''
    """Why any did."""
    lost: tuple[str, ...] = ()
    """Segments that are gone: an image before them is known by its hash alone."""


@dataclass(frozen=True)
class Target:
    """What a snapshot is restored into."""

    model: StateModel
    pool: BlockPool
    policy: Policy
    fingerprint: Fingerprint
    gate: Gate = CLOSED
    """Says which approximate edits are allowed from now on."""

    def biases(self) -> Mapping[int, KeyBias]:
        """Return the key biases of the model, where it is one of transformers."""
        model = getattr(self.model, 'model', None)
        return biases_of(model) if isinstance(model, torch.nn.Module) else {}


def restore(
    snapshot: Snapshot, target: Target, fallback: Fallback = Fallback.REFUSE
) -> Restored:
    """Return the state of a snapshot.

    Raises:
        FingerprintMismatch: it was made with something else; under REPREFILL only where token
            ids would mean something else.
        Corrupt: it is damaged; under REPREFILL only where that cannot be computed again.
        KeysLost: only tokens are kept, under REFUSE.
        CacheError: the policy cannot read its pages, under REFUSE.
        PoolFullError: the pool has no room; nothing is taken.
    """
    try:
        _check(snapshot, target)
        state, reason = _put_back(snapshot, target), ''
    except PoolFullError:
        raise
    except (FingerprintMismatch, Corrupt, CacheError, KeysLost) as error:
        if fallback is Fallback.REFUSE:
            raise
        _check_meaning(snapshot, target)
        state, reason = None, str(error)
    belongings = _belongings(snapshot)
    if state is not None:
        return Restored(state, belongings)
    return _compute_anew(snapshot, target, belongings, reason)


def _check(snapshot: Snapshot, target: Target) -> None:
    if snapshot.meta.get(TOKENS_ONLY):
        raise KeysLost(snapshot.meta[TOKENS_ONLY])
    Fingerprint.from_words(snapshot.meta['fingerprint']).check(target.fingerprint)
    if snapshot.damaged:
        raise Corrupt(
            f'{snapshot.name}: tensor {snapshot.damaged[0]}', 'its checksum does not fit'
        )


def _check_meaning(snapshot: Snapshot, target: Target) -> None:
    """Refuse token ids that mean something else, and the loss of what they do not give back."""
    Fingerprint.from_words(snapshot.meta['fingerprint']).check_meaning(target.fingerprint)
    for name in set(NEEDED) & set(snapshot.damaged):
        raise Corrupt(f'{snapshot.name}: tensor {name}', 'its checksum does not fit')


def _put_back(snapshot: Snapshot, target: Target) -> KVState:
    meta, tensors = snapshot.meta, snapshot.tensors
    state = _empty(target, meta)
    body, held = state.body, state.body.held
    if (held.session is None) != (meta['session'] is None):
        raise CacheError('the snapshot is of another kind of cache than this model has')
    session = None
    if meta['session'] is not None:
        image = SessionImage(_within('kv.', tensors), meta['session'])
        session = put_image(image, target.pool, body.policy, target.biases())
    held.load(
        session, _checkpoint(snapshot, 'now', meta['held']),
        [_checkpoint(snapshot, str(place), place) for place in meta['checkpoints']],
    )
    body.segments = tuple(_segment(one, tensors) for one in meta['segments'])
    body.rope.starts = tensors['rope.starts'].clone()
    body.rope.anchors = tensors['rope.anchors'].clone()
    body.rope.steps = tensors['rope.steps'].clone()
    body.taint = Taint(
        [start for start, _ in meta['taint']], [frozenset(fed) for _, fed in meta['taint']]
    )
    body.logits = tensors['logits'].clone() if 'logits' in tensors else None
    body.reason = meta['reason']
    return state


def _compute_anew(
    snapshot: Snapshot, target: Target, belongings: Belongings, reason: str
) -> Restored:
    meta = snapshot.meta
    state = _empty(target, meta)
    body = state.body
    shown = {name: tensor for name, tensor in snapshot.tensors.items()
             if not _is_broken_image(name, snapshot)}
    segments = [_segment(one, shown) for one in meta['segments']]
    blind = [place for place, one in enumerate(segments)
             if one.image is not None and one.image.tensors is None]
    first_lost = min(blind, default=len(segments))
    body.segments, body.reason = tuple(segments[:first_lost]), reason
    try:
        computed = body.catch_up()
    except BaseException:
        body.clear()
        raise
    lost = tuple(one.name for one in segments[first_lost:])
    return Restored(state, belongings, computed, reason, lost)


def _is_broken_image(name: str, snapshot: Snapshot) -> bool:
    """Say whether a tensor is of an image of which another tensor is damaged."""
    kind, _, rest = name.partition('.')
    sha256 = rest.partition('.')[0]
    return kind == 'image' and any(
        one.startswith(f'image.{sha256}.') for one in snapshot.damaged
    )


def _empty(target: Target, meta: Mapping[str, Any]) -> KVState:
    return KVState(
        target.model, target.pool, target.policy, meta['budget_bytes'], gate=target.gate
    )


def _belongings(snapshot: Snapshot) -> Belongings:
    meta, rng = snapshot.meta, snapshot.tensors.get('rng')
    return Belongings(
        meta['epoch'], Ledger.from_state(meta['ledger']), None if rng is None else rng.clone(),
        meta['words'],
    )


def _segment(said: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Segment:
    grade, kind, measured = said['exactness']
    image = None
    if said['image'] is not None:
        shown = {name: tensor.clone()
                 for name, tensor in _within(f'image.{said["image"]}.', tensors).items()}
        image = SegmentImage(said['image'], shown or None)
    return Segment(
        said['name'], tuple(said['tokens']), said['epoch'], image,
        Exactness(Grade[grade], kind, measured),
    )


def _checkpoint(snapshot: Snapshot, label: str, tokens: int) -> Checkpoint:
    parts = {name: tensor.clone()
             for name, tensor in _within(f'layers.{label}.', snapshot.tensors).items()}
    return Checkpoint(tokens, tuple(
        (parts.get(f'{index}.key'), parts.get(f'{index}.value'))
        for index in range(snapshot.meta['layers'])
    ))


def _within(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items()
            if name.startswith(prefix)}

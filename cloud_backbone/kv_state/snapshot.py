# SPDX-License-Identifier: Apache-2.0
"""A state and all that belongs to it at one moment, as one file of checked tensors.

Holds keys and values, and everything that they could be made from again: token ids, images' hashes
and what shows them, positions, epochs. ``restore`` turns it back. Knows no store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cloud_backbone.kv_cache.session_image import take_image
from cloud_backbone.kv_state.checked_tensors import decode, encode
from cloud_backbone.kv_state.durable_file import map_file, write_whole
from cloud_backbone.kv_state.errors import Corrupt
from cloud_backbone.kv_state.fingerprint import Fingerprint
from cloud_backbone.kv_state.held_cache import Checkpoint, HeldCache
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.ledger import Ledger
from cloud_backbone.kv_state.segment import Segment
from torch import Tensor

FORMAT = 1
ENDING = '.safetensors'
TOKENS_ONLY = 'tokens_only'
"""Word of a snapshot without keys and values: why."""


@dataclass(frozen=True)
class Belongings:
    """What a session has beside its state."""

    epoch: int = 0
    """Grows whenever somebody takes the session up again."""
    ledger: Ledger = field(default_factory=Ledger)
    rng: Tensor | None = None
    """State of the generator that tokens are drawn with, uint8."""
    words: Mapping[str, Any] = field(default_factory=dict)
    """The owner's own, as JSON knows it: a grammar's state, a history."""


@dataclass(frozen=True)
class Snapshot:
    """Tensors and words; those that were read from a file lie in its map."""

    tensors: Mapping[str, Tensor]
    meta: Mapping[str, Any]
    name: str = 'snapshot'
    """For messages."""
    damaged: tuple[str, ...] = ()
    """Tensors that are missing, because their bytes are not those that were written."""

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors [B]."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    @property
    def tokens(self) -> int:
        """Count the tokens of all segments."""
        return sum(len(one['tokens']) for one in self.meta['segments'])

    def parts(self) -> list[memoryview]:
        """Return the bytes of its file, part by part."""
        return encode(self.tensors, self.meta)

    @classmethod
    def from_bytes(cls, buffer: Any, name: str = 'snapshot') -> Snapshot:
        """Read what ``parts`` returned, joined; writable, and not changed.

        Raises:
            Corrupt: the header is damaged, or of another format. Damaged tensors do not raise.
        """
        damaged: list[str] = []
        tensors, meta = decode(buffer, name, damaged)
        if meta.get('format') != FORMAT:
            raise Corrupt(
                f'{name}: header', f'format {meta.get("format")} is not known, {FORMAT} is'
            )
        return cls(tensors, meta, name, tuple(damaged))


def take_snapshot(
    state: KVState, fingerprint: Fingerprint, belongings: Belongings | None = None
) -> Snapshot:
    """Return what a state is now; it is not changed, and no memory is shared but images'."""
    owned, body = belongings or Belongings(), state.body
    cache_tensors, cache_meta = _cache(body.held)
    tensors = {
        **cache_tensors,
        'rope.starts': body.rope.starts, 'rope.anchors': body.rope.anchors,
        'rope.steps': body.rope.steps,
        **_images(body.segments),
    }
    if body.logits is not None:
        tensors['logits'] = body.logits.clone()
    if owned.rng is not None:
        tensors['rng'] = owned.rng.clone()
    return Snapshot(tensors, {
        'format': FORMAT,
        'fingerprint': fingerprint.words(),
        'epoch': owned.epoch,
        'ledger': owned.ledger.state(),
        'words': dict(owned.words),
        'segments': [_segment(one) for one in body.segments],
        'taint': [[start, sorted(fed)]
                  for start, fed in zip(body.taint.starts, body.taint.fed, strict=True)],
        'budget_bytes': body.budget_bytes,
        'reason': body.reason,
        **cache_meta,
    })


def tokens_only(snapshot: Snapshot, why: str) -> Snapshot:
    """Return a snapshot without keys, values and what shows images; it is small.

    Args:
        snapshot: a whole one, or one of this kind, whose reason stays.
        why: the rest is not kept, for whoever restores it.
    """
    if snapshot.meta.get(TOKENS_ONLY):
        return snapshot
    kept = {name: tensor for name, tensor in snapshot.tensors.items() if name == 'rng'}
    nothing: dict[str, Any] = {
        'session': None, 'held': 0, 'layers': 0, 'checkpoints': [], 'taint': [],
    }
    return replace(snapshot, tensors=kept, meta={**snapshot.meta, **nothing, TOKENS_ONLY: why})


def save_snapshot(path: Path, snapshot: Snapshot) -> int:
    """Write a snapshot, whole or not at all; return its bytes [B].

    Raises:
        StoreError: the disk refused.
    """
    return write_whole(path, snapshot.parts())


def load_snapshot(path: Path) -> Snapshot:
    """Map a snapshot and check every byte of it.

    Raises:
        FileNotFoundError: there is none.
        Corrupt: the header is damaged; damaged tensors are named in what is returned.
        StoreError: the disk refused.
    """
    return Snapshot.from_bytes(map_file(path), path.name)


def _segment(segment: Segment) -> dict[str, Any]:
    found = segment.exactness
    return {
        'name': segment.name, 'tokens': list(segment.tokens), 'epoch': segment.epoch,
        'image': None if segment.image is None else segment.image.sha256,
        'exactness': [found.grade.name, found.kind, found.measured],
    }


def _images(segments: tuple[Segment, ...]) -> dict[str, Tensor]:
    """Return what shows the images, as far as it is at hand."""
    return {
        f'image.{segment.image.sha256}.{name}': tensor.cpu()
        for segment in segments if segment.image is not None
        for name, tensor in (segment.image.tensors or {}).items()
    }


def _cache(held: HeldCache) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors: dict[str, Tensor] = {}
    session = held.session
    image = None if session is None else take_image(session)
    if image is not None:
        tensors |= {f'kv.{name}': tensor for name, tensor in image.tensors.items()}
    now = held.checkpoint()
    earlier = {one.tokens: one for one in held.checkpoints}
    for label, one in [('now', now), *((str(place), one) for place, one in earlier.items())]:
        tensors |= _layers(f'layers.{label}', one)
    return tensors, {
        'session': None if image is None else dict(image.meta),
        'held': now.tokens, 'layers': len(now.layers), 'checkpoints': list(earlier),
    }


def _layers(prefix: str, checkpoint: Checkpoint) -> dict[str, Tensor]:
    return {
        f'{prefix}.{index}.{name}': tensor.cpu().clone()
        for index, pair in enumerate(checkpoint.layers)
        for name, tensor in zip(('key', 'value'), pair, strict=True) if tensor is not None
    }

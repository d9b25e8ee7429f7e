# SPDX-License-Identifier: Apache-2.0
"""A session as named tensors and plain words, and back: it goes on as if nothing had happened.

Bit for bit: pages, positions, what scorers and codecs have learned, shares, pins and rotary
positions. What sessions of a model share (key biases, gains, thresholds) is not taken, only what
tells it apart. Knows no file, no model and no checksum; belongs to ``KVSession`` and knows its
inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.key_bias import KeyBias
from cloud_backbone.kv_cache.kv_session import KVSession
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.kv_cache.row_image import put_row, take_row
import torch
from torch import Tensor

CODECS = ('make_codec', 'upper', 'lower')
"""Fields of a policy that are functions; what they make, each layer says."""
ROOM = ('growth',)
"""Fields that decide about memory in reserve alone: no number that is kept depends on them."""
LAYOUT = 1
"""Version of names, shapes and page formats; another one cannot be read."""


@dataclass(frozen=True)
class SessionImage:
    """What one session was at one moment; shares no memory with it."""

    tensors: Mapping[str, Tensor]
    """Contiguous, on the CPU, by name: ``rope.…`` and ``<layer>.…``."""
    meta: Mapping[str, Any]
    """As JSON knows it."""

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors [B]."""
        return sum(tensor.nbytes for tensor in self.tensors.values())


def take_image(session: KVSession) -> SessionImage:
    """Return what a session is now; the session is not changed."""
    rope = session.rope
    tensors = {
        'rope.starts': rope.starts.clone(), 'rope.anchors': rope.anchors.clone(),
        'rope.steps': rope.steps.clone(),
    }
    rows = []
    with torch.inference_mode(False), torch.no_grad():
        for layer, row in session.rows.items():
            parts, meta = take_row(row)
            tensors |= {f'{layer}.{name}': tensor for name, tensor in parts.items()}
            rows.append([layer, meta])
    return SessionImage(tensors, {
        'layout': LAYOUT,
        'policy': policy_words(session.policy),
        'layers': session.layers,
        'budget_bytes': session.limits.budget_bytes,
        'slots': session.limits.slots,
        'limits': session.limits.state(),
        'pins': [list(pin) for pin in session.pins],
        'tentative': session.tentative,
        'preferences': list(session._preferences.items()),
        'waiting': list(session._waiting.items()),
        'rows': rows,
    })


def put_image(
    image: SessionImage, pool: BlockPool, policy: Policy,
    biases: Mapping[int, KeyBias] | None = None,
) -> KVSession:
    """Return a new session that goes on where the other one was.

    Args:
        image: what ``take_image`` returned, perhaps by way of a file.
        pool: where pages come from.
        policy: the same as of the other session.
        biases: key biases of the model by layer (``model_biases.biases_of``).

    Raises:
        CacheError: the image is of another layout, of another policy, or of other shared tables.
        PoolFullError: the pool has no room; nothing is taken.
    """
    meta = image.meta
    _check(meta, policy)
    session = KVSession(
        pool, policy, meta['layers'], budget_bytes=meta['budget_bytes'], slots=meta['slots']
    )
    try:
        with torch.inference_mode(False), torch.no_grad():
            _fill(session, image, biases or {})
    except BaseException:
        session.close()
        raise
    return session


def policy_words(policy: Policy) -> dict[str, Any]:
    """Return what a policy says of what is kept, as JSON knows it; codecs by their name only."""
    words = {field.name: getattr(policy, field.name) for field in fields(policy)
             if field.name not in (*CODECS, *ROOM)}
    plain = {name: value if isinstance(value, (str, int, float)) else repr(value)
             for name, value in words.items()}
    return {**plain, 'tiers': [len(policy.upper), len(policy.lower)]}


def _check(meta: Mapping[str, Any], policy: Policy) -> None:
    if meta.get('layout') != LAYOUT:
        raise CacheError(
            f'the image has layout {meta.get("layout")}, this version reads {LAYOUT}'
        )
    for field, got in policy_words(policy).items():
        want = meta['policy'].get(field)
        if want != got:
            raise CacheError(f'the image was made under {field} {want!r}, this policy has {got!r}')


def _fill(session: KVSession, image: SessionImage, biases: Mapping[int, KeyBias]) -> None:
    meta, rope = image.meta, session.rope
    rope.starts = image.tensors['rope.starts'].clone()
    rope.anchors = image.tensors['rope.anchors'].clone()
    rope.steps = image.tensors['rope.steps'].clone()
    by_layer: dict[int, dict[str, Tensor]] = {int(layer): {} for layer, _ in meta['rows']}
    for name, tensor in image.tensors.items():
        layer, _, part = name.partition('.')
        if layer != 'rope':
            by_layer[int(layer)][part] = tensor
    for layer, said in meta['rows']:
        put_row(session, layer, by_layer[layer], said, biases.get(layer))
    session.limits.load(meta['limits'])
    session.pins.extend((int(first), int(end)) for first, end in meta['pins'])
    session.tentative = bool(meta['tentative'])
    session._preferences.update({int(layer): want for layer, want in meta['preferences']})
    session._waiting.update({int(layer): want for layer, want in meta['waiting']})

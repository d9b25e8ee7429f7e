# SPDX-License-Identifier: Apache-2.0
"""Cache policies by name: a rule that drops tokens, a codec that shrinks them, or both.

``full`` keeps everything. A scorer's name alone keeps raw numbers (``cake``), a codec's name alone
drops nothing (``kivi4``), and ``cake+squat4`` evicts, then encodes. One table holds all names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cloud_backbone.kv_cache.cake import Cake
from cloud_backbone.kv_cache.codec import Codec
from cloud_backbone.kv_cache.columns import Columns
from cloud_backbone.kv_cache.errors import PolicyError
from cloud_backbone.kv_cache.h2o import H2O
from cloud_backbone.kv_cache.int8 import Int8Codec
from cloud_backbone.kv_cache.kivi import KiviCodec
from cloud_backbone.kv_cache.oaken import OakenCodec
from cloud_backbone.kv_cache.raw import RawCodec
from cloud_backbone.kv_cache.replay import Replay
from cloud_backbone.kv_cache.scorer import Scorer
from cloud_backbone.kv_cache.sinks import Sinks
from cloud_backbone.kv_cache.snapkv import SnapKV
from cloud_backbone.kv_cache.squat import SquatCodec
from cloud_backbone.kv_cache.veda import Veda
from cloud_backbone.kv_cache.wide import Wide
import torch

MakeCodec = Callable[[int, int, int, int], Codec]
"""Makes the codec of a layer from layer, kv_heads, head_dim and slots of a block."""


@dataclass(frozen=True)
class Policy:
    """How the tokens of a session are kept."""

    name: str = 'full'
    scorer: Scorer | None = None
    make_codec: MakeCodec | None = None
    upper: tuple[MakeCodec, ...] = ()
    """Codecs of more bits than ``make_codec``, for slots of more worth; most bits first."""
    lower: tuple[MakeCodec, ...] = ()
    """Codecs of fewer bits, for slots of less worth."""
    share: str = 'uniform'
    """How layers share the budget: uniform, pyramid, cake or global."""
    block: int = 32
    """Slots of a block."""
    ring: int = 0
    """Newest tokens that stay raw although they would fill a block."""
    raw_sinks: int = 0
    """First tokens that are never encoded, unless ``whole``. Their keys are unlike all others: in
    a block they spoil the scales of the tokens beside them. Without ``upper`` and ``lower`` only.
    """
    sinks: int = 4
    """First tokens that are never dropped."""
    recent: int = 32
    """Newest tokens that are never dropped."""
    drop_at_once: int = 1
    """Slots that a full raw row drops in one go."""
    raw_dtype: torch.dtype | None = None
    """Type of raw slots; None is the model's."""
    whole: bool = False
    """Whether a commit encodes all there is, the last block in part: nothing stays raw."""
    spare: int = 0
    """Blocks of a row without a codec that stay for the next tokens when the last are dropped."""
    growth: float = 0.0
    """Share of blocks that an unlimited raw row has beyond those it fills, so that it is moved to
    more room seldom."""
    bias_aware: bool = True
    """Whether a codec sees keys without the bias of their projection."""

    @property
    def lossless(self) -> bool:
        """Whether every token stays as it was computed."""
        return self.scorer is None and self.make_codec is None

    def columns(self, kv_heads: int) -> Columns:
        """Return what the scorer keeps for each slot."""
        if self.scorer is None:
            return Columns()
        heads = kv_heads if self.scorer.per_head else 1
        return Columns(heads, dict(self.scorer.columns))

    def raw(self, head_dim: int, dtype: torch.dtype) -> RawCodec:
        """Return the codec of the open shelf for a model that computes in ``dtype``."""
        return RawCodec(head_dim, self.raw_dtype or dtype, self.block)

    def codecs(self, layer: int, kv_heads: int, head_dim: int) -> list[Codec]:
        """Return the codecs of the sealed shelves of one layer, that of most bits first."""
        makers = [] if self.make_codec is None else [self.make_codec, *self.lower]
        upper = [make(layer, kv_heads, head_dim, self.block) for make in self.upper]
        return upper + [make(layer, kv_heads, head_dim, self.block) for make in makers]

    @property
    def counted(self) -> int:
        """Place of ``make_codec`` among the codecs."""
        return len(self.upper)


_SCORERS: dict[str, dict[str, Any]] = {
    'sinks': {'scorer': Sinks(), 'drop_at_once': 16},
    'snapkv': {'scorer': SnapKV()},
    'pyramid': {'scorer': SnapKV(), 'share': 'pyramid'},
    'h2o': {'scorer': H2O()},
    'cake': {'scorer': Cake(), 'share': 'cake'},
    'wide': {'scorer': Wide()},
    'replay': {'scorer': Replay(), 'share': 'global', 'recent': 192},
    'veda': {'scorer': Veda(stats='exclude_reserved')},
    'veda-paper': {'scorer': Veda(stats='paper'), 'recent': 0},
}
_CODECS: dict[str, MakeCodec] = {
    'int8': lambda layer, heads, width, slots: Int8Codec(width, slots),
    'kivi4': lambda layer, heads, width, slots: KiviCodec(width, 4, slots),
    'kivi2': lambda layer, heads, width, slots: KiviCodec(width, 2, slots),
    'squat4': lambda layer, heads, width, slots: SquatCodec(width, heads, 4, slots),
    'squat2': lambda layer, heads, width, slots: SquatCodec(width, heads, 2, slots),
    'oaken': lambda layer, heads, width, slots: OakenCodec(width, slots),
}
_BLOCKWISE: dict[str, Any] = {'raw_sinks': 4, 'ring': 124}
"""Of a codec that gives a block one scale and drops nothing: KIVI's residual of 128 tokens, those
that attention looks at most."""
_TIERS: dict[str, Any] = {
    'upper': (
        lambda layer, heads, width, slots: RawCodec(width, torch.float16, slots), _CODECS['int8'],
    ),
    'make_codec': _CODECS['squat4'],
    'lower': (_CODECS['kivi2'],),
    'raw_dtype': torch.float16,
}
"""16, 8, 4 and 2 bits by worth."""


def policy_names() -> list[str]:
    """Return every policy that can be asked for by name."""
    pairs = [f'{scorer}+{codec}' for scorer in _SCORERS for codec in (*_CODECS, 'tiers')]
    return ['full', *_SCORERS, *_CODECS, *pairs]


def find_policy(name: str) -> Policy:
    """Return the policy of a name.

    Raises:
        PolicyError: there is none of that name.
    """
    if name not in policy_names():
        raise PolicyError(name, policy_names())
    fields: dict[str, Any] = {'name': name}
    for part in name.split('+'):
        fields |= _SCORERS.get(part, {})
        if part == 'tiers':
            fields |= _TIERS
        elif part in _CODECS:
            fields |= {'make_codec': _CODECS[part], 'raw_dtype': torch.float16}
    if name.startswith(('kivi', 'squat')):
        fields |= _BLOCKWISE
    return Policy(**fields)

# SPDX-License-Identifier: Apache-2.0
"""What every operation on a state answers: how exact, what it cost, what is held now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cloud_backbone.kv_state.exactness import Exactness


@dataclass(frozen=True)
class Mark:
    """A place in a state that can be cropped to, as long as nothing before it has changed."""

    tokens: int
    """Tokens before it."""
    prefix_hash: str
    """Of these tokens (``segment.chain_hash``)."""


@dataclass(frozen=True)
class Receipt:
    """The outcome of one operation."""

    exactness: Exactness
    """Of what the state says next."""
    tokens_reused: int
    """Tokens held afterwards that were not computed by this operation."""
    tokens_computed: int
    """Tokens that went through the model."""
    prefix_hash: str
    """Of all tokens held (``segment.chain_hash``)."""
    ms: float = 0.0
    """Wall time that the operation took [ms]."""
    reason: str = ''
    """Why more was computed than the operation needs by itself; empty: it was not."""
    stale: Mapping[str, int] = field(default_factory=dict)
    """Oldest observation epoch of each segment that still rests on one that is gone."""


@dataclass(frozen=True)
class Certificate:
    """On what the next answer rests."""

    prefix_hash: str
    exactness: Exactness
    freshest: int | None
    """The newest observation epoch that fed it; None: no observation did."""
    stalest: int | None
    """The oldest one."""


@dataclass(frozen=True)
class Stats:
    """What a state holds."""

    tokens: int
    byte_count: int
    """Of every tensor, checkpoints included [B]."""
    tokens_computed: int
    """Tokens that went through the model by this state's own edits, since it was made."""
    classes: dict[str, Exactness]
    """Class of each segment."""
    segment_tokens: dict[str, int]
    freshest: int | None
    """The newest observation epoch; None: there is none."""
    min_crop_pos: int
    """From here on every mark can be cropped to."""

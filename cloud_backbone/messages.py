# SPDX-License-Identifier: Apache-2.0
"""What robots ask, as plain data. Mirrors ``planner.proto``; knows neither wire nor model."""

from __future__ import annotations

from dataclasses import dataclass

from cloud_backbone.embodiment import Embodiment


@dataclass(frozen=True)
class Hello:
    """Who the robot is and what it wants."""

    robot_id: str
    protocol_version: int
    embodiment: Embodiment
    cache_policy: str = ''
    cache_budget_bytes: int = 0
    session_id: str = ''


@dataclass(frozen=True)
class Turn:
    """One question. ``images`` maps a camera's name to its JPEG."""

    turn_id: str
    epoch: int
    instruction: str
    observation_epoch: int
    images: dict[str, bytes]
    joint_positions: tuple[float, ...]
    deadline_ms: int = 0
    """0: none."""


@dataclass(frozen=True)
class CancelTurn:
    """Withdraws a turn."""

    turn_id: str


@dataclass(frozen=True)
class Welcome:
    """What the backbone grants."""

    session_id: str
    epoch: int
    resumed: bool
    fingerprint: str
    image_size: tuple[int, int]
    latent_size: int
    cache_policy: str
    cache_budget_bytes: int


@dataclass(frozen=True)
class Stats:
    """Counters of the backbone since its start."""

    fingerprint: str = ''
    open_sessions: int = 0
    plans: int = 0
    errors: int = 0
    batches: int = 0
    cache_bytes: int = 0
    free_sessions: int = 0
    """How many more fit into the cache, on the backbone's own terms."""

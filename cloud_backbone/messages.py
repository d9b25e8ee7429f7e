# SPDX-License-Identifier: Apache-2.0
"""What robots ask, as plain data. Mirrors ``planner.proto``; knows neither wire nor model."""

from __future__ import annotations

from dataclasses import dataclass

from cloud_backbone.action_plan import Exactness
from cloud_backbone.embodiment import Embodiment
from cloud_backbone.task_memory import TaskMemory


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
    memory: TaskMemory | None = None
    """None: a single plain question."""
    revises: str = ''
    """Id of the turn whose answer this one checks on a newer observation."""


@dataclass(frozen=True)
class CancelTurn:
    """Withdraws a turn."""

    turn_id: str


@dataclass(frozen=True)
class Ping:
    """Asks whether the backbone is there; the number comes back."""

    number: int


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


@dataclass(frozen=True)
class SegmentState:
    """One named part of a session's cache; epochs are 0 where no observation fed it."""

    name: str
    tokens: int
    exactness: Exactness
    stalest_epoch: int = 0
    freshest_epoch: int = 0


@dataclass(frozen=True)
class SessionState:
    """What a session holds, for people and tools."""

    session_id: str
    epoch: int
    trial: int = 0
    entries: int = 0
    lessons: tuple[str, ...] = ()
    segments: tuple[SegmentState, ...] = ()
    cache_bytes: int = 0
    tier: str = 'pool'
    """Where the cache is: pool, memory, disk or tokens."""
    cache_policy: str = ''
    prefix_hash: str = ''
    note: str = ''
    """What the last restore could not bring back, and why."""


@dataclass(frozen=True)
class SnapshotInfo:
    """A snapshot that was written."""

    byte_count: int
    tokens: int


@dataclass(frozen=True)
class RestoreInfo:
    """What a restore brought back."""

    tokens: int
    exactness: Exactness
    note: str = ''

# SPDX-License-Identifier: Apache-2.0
"""The answer to a turn as plain data: a plan, its steps, and what they rest on.

Mirrors ``plan.proto``; knows neither the wire nor how plans are made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import auto, Enum

from cloud_backbone.task_memory import ToolCall

Vector = tuple[float, float, float]


class Outcome(Enum):
    """Kind of answer."""

    STEPS = auto()
    DONE = auto()
    REFUSED = auto()
    ASK = auto()


class Skill(Enum):
    """The closed set of skills."""

    REACH = auto()
    GRASP = auto()
    LIFT = auto()
    MOVE = auto()
    PLACE = auto()
    PUSH = auto()
    HOME = auto()
    HOLD = auto()


class Success(Enum):
    """What must hold at the end of a step."""

    AT_TARGET = auto()
    HOLDING = auto()
    RELEASED = auto()


class Exactness(Enum):
    """How the cache relates to a recomputation from scratch."""

    BIT = auto()
    NUMERIC = auto()
    APPROXIMATE = auto()
    LOST = auto()
    """Not held; never of an answer."""


@dataclass(frozen=True)
class Step:
    """One skill with its target [m] in the base frame; HOME has none."""

    skill: Skill
    target_in_base: Vector | None = None
    thing: str = ''
    point: tuple[float, float] | None = None
    """Where the thing is in the image, (x, y) in 0..1 from the top left."""
    gripper_opening: float = 1.0
    speed: float = 1.0
    success: Success = Success.AT_TARGET
    tool_yaw: float = 0.0
    """Rotation of the gripper about the vertical [rad]."""


@dataclass(frozen=True)
class Certificate:
    """What an answer rests on."""

    stalest_observation_epoch: int
    freshest_observation_epoch: int
    exactness: Exactness = Exactness.NUMERIC
    prefix_hash: str = ''
    """Digest over all tokens and images that the answer was computed from."""


@dataclass(frozen=True)
class Plan:
    """The backbone's answer to one turn."""

    outcome: Outcome
    thought: str = ''
    reason: str = ''
    steps: tuple[Step, ...] = ()
    latent: tuple[float, ...] = ()
    confidence: float = 0.0
    certificate: Certificate | None = None
    call: ToolCall | None = None
    """The tool that the steps carry out."""
    lesson: str = ''
    """What to do otherwise in the next trial."""


@dataclass(frozen=True)
class Answer:
    """A plan with what it cost."""

    plan: Plan
    durations_ns: dict[str, int] = field(default_factory=dict)
    """Stage to duration: queue, vision, prefill, decode."""
    reused_tokens: int = 0
    computed_tokens: int = 0
    known_entries: int = 0
    """How many entries of the trial's history the backbone holds."""
    exactness: Exactness = Exactness.NUMERIC
    """Of the cache that the answer was written on."""

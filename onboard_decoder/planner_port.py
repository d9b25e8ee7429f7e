# SPDX-License-Identifier: Apache-2.0
"""What the robot needs of a backbone: ask without waiting, look for the answer later.

``planner_client`` does it over the network; an evaluation may wrap it to add simulated delay; a
test may script it. Nothing here blocks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from onboard_decoder.plan import ActionPlan
from onboard_decoder.task_memory import TaskMemory


class Link(Enum):
    """State of the link to the backbone."""

    CONNECTING = 'connecting'  # no session yet
    READY = 'ready'  # turns can be asked
    SILENT = 'silent'  # the stream is open, but nothing was heard for ``silence_s``
    DEGRADED = 'degraded'  # session was there, link is being opened again
    LOST = 'lost'  # refused, or gone for long; still trying now and then
    CLOSED = 'closed'  # by us


@dataclass(frozen=True, slots=True)
class Grant:
    """What the backbone granted in its welcome."""

    session_id: str
    epoch: int
    resumed: bool
    model_fingerprint: str
    image_width_px: int
    image_height_px: int
    latent_size: int
    max_message_bytes: int
    max_instruction_chars: int
    answers_pings: bool = False


@dataclass(frozen=True, slots=True)
class LinkQuality:
    """How good the link was of late; None where nothing is known yet.

    Attributes:
      round_trip_s: smoothed round trip of small messages [s].
      round_trip_worst_s: worst round trip of late [s]; a message under way counts by its age.
      answer_s: how long answers to turns took of late, the typical one [s].
      bytes_per_s: estimated uplink [byte/s].
    """

    round_trip_s: float | None = None
    round_trip_worst_s: float | None = None
    answer_s: float | None = None
    bytes_per_s: float | None = None


class Source(Enum):
    """Who plans."""

    CLOUD = 'cloud'  # the backbone
    ONBOARD = 'onboard'  # the small planner of the robot


@dataclass(frozen=True, slots=True)
class Choice:
    """Who plans, or planned a turn, and why, in one sentence."""

    source: Source
    reason: str


@dataclass(frozen=True, slots=True)
class PlannerState:
    """Link state, one sentence why, the grant while there is a session, and how good it is.

    ``fallback`` is under what turns can be asked while the link is not READY, None where they
    cannot; ``too_hard`` is an instruction for which it is no help, empty if there is none;
    ``choice`` is who plans now, None where there is no choice.
    """

    link: Link
    reason: str = ''
    grant: Grant | None = None
    quality: LinkQuality | None = None
    fallback: Grant | None = None
    choice: Choice | None = None
    too_hard: str = ''

    def fallback_for(self, instruction: str) -> Grant | None:
        """Return under what turns of an instruction can be asked without the link, or None."""
        return None if instruction and instruction == self.too_hard else self.fallback

    def grant_for(self, instruction: str) -> Grant | None:
        """Return under what a turn of an instruction can be asked now; None where it cannot."""
        is_ready = self.link is Link.READY and self.grant is not None
        return self.grant if is_ready else self.fallback_for(instruction)


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One question.

    ``images`` maps a camera's name to a JPEG of the granted size; ``joint_positions`` are in the
    manifest's order; ``deadline_s`` is the time after which the answer is of no use; ``memory`` is
    None for a plain question, else it holds all entries of the trial; ``revises`` is the id of the
    turn whose answer this one checks on a newer observation, empty if it is no check;
    ``image_quality`` is that of the JPEGs, 1..100, 0 if unknown. It is not sent.
    """

    turn_id: str
    instruction: str
    images: Mapping[str, bytes]
    joint_positions: tuple[float, ...]
    observation_epoch: int
    deadline_s: float
    memory: TaskMemory | None = None
    revises: str = ''
    image_quality: int = 0


@dataclass(frozen=True, slots=True)
class TurnAnswer:
    """A plan, and how it came about; times are on the robot's clock.

    ``known_entries`` is how many entries of the trial's memory the backbone holds; ``choice`` is
    who made the plan and why, None where there was no choice.
    """

    turn_id: str
    plan: ActionPlan
    sent_ns: int
    received_ns: int
    backbone_ns: Mapping[str, int] = field(default_factory=dict)  # stage -> duration [ns]
    reused_token_count: int = 0
    computed_token_count: int = 0
    known_entries: int = 0
    backbone_arrived_ns: int = 0  # of the turn, on the backbone's clock; only for drawing
    choice: Choice | None = None


class Remedy(Enum):
    """What to do about a turn that failed."""

    RETRY = 'retry'
    REOPEN = 'reopen'  # the client does so by itself; then ask again
    FIX = 'fix'  # asking the same again will not help


@dataclass(frozen=True, slots=True)
class TurnFailure:
    """Why there is no plan, and what to do; ``reason`` is for machines, ``message`` for people."""

    turn_id: str
    reason: str
    message: str
    remedy: Remedy


class PendingTurn(Protocol):
    """A turn that was asked."""

    def poll(self) -> TurnAnswer | TurnFailure | None:
        """Return the result, or None while there is none. Never waits."""
        ...

    def cancel(self) -> None:
        """Withdraw the turn; a late answer is dropped."""
        ...


class PlannerPort(Protocol):
    """A backbone as the robot sees it."""

    def state(self) -> PlannerState:
        """Return the link's state. Never waits."""
        ...

    def submit(self, turn: TurnRequest) -> PendingTurn:
        """Ask. Never waits. Raises PlannerUnavailable where there is no session."""
        ...

    def close(self) -> None:
        """End the session."""
        ...

# SPDX-License-Identifier: Apache-2.0
"""How a step of a trial can end. Plain values."""

from dataclasses import dataclass

from onboard_decoder.agent.decision import Decision
from onboard_decoder.agent.effects import Effect
from onboard_decoder.agent.task_result import TrialEnd


@dataclass(frozen=True, slots=True)
class Stepped:
    """A call is over."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class Claimed:
    """The backbone says that the goal is reached."""


@dataclass(frozen=True, slots=True)
class Halted:
    """The arm stands, having touched nothing.

    ``decision`` is to be taken up, None: look anew; ``is_low``: the hand is among the things.
    """

    decision: Decision | None
    is_low: bool


@dataclass(frozen=True, slots=True)
class Stopped:
    """The backbone gives up."""

    reason: str


@dataclass(frozen=True, slots=True)
class Enough:
    """A limit is reached; ``is_final`` if another trial would not help."""

    end: TrialEnd
    reason: str
    is_final: bool = False


StepOver = Stepped | Claimed | Halted | Stopped | Enough

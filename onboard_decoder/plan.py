# SPDX-License-Identifier: Apache-2.0
"""What the backbone decided, as plain values: a plan of steps, or done, a refusal, a question.

Knows nothing of messages, tokens or joints.
"""

from dataclasses import dataclass, field
from enum import Enum

from onboard_decoder.task_memory import ToolCall


class Skill(Enum):
    """The closed set of skills."""

    REACH = 'reach'
    GRASP = 'grasp'
    LIFT = 'lift'
    MOVE = 'move'
    PLACE = 'place'
    PUSH = 'push'
    HOME = 'home'
    HOLD = 'hold'


class SuccessCondition(Enum):
    """What must hold at the end of a step."""

    AT_TARGET = 'at_target'
    HOLDING = 'holding'
    RELEASED = 'released'


class Outcome(Enum):
    """Kind of answer."""

    STEPS = 'steps'
    DONE = 'done'
    REFUSED = 'refused'
    ASK = 'ask'  # a person is asked, see the call's question


class Exactness(Enum):
    """How the cache that a plan was made with relates to one computed from scratch."""

    BIT = 'bit'  # same bytes
    NUMERIC = 'numeric'  # same function, other order of additions
    APPROXIMATE = 'approximate'  # compressed or edited


@dataclass(frozen=True, slots=True)
class Certificate:
    """Which observations a plan rests on, by their epochs, and how exact the cache was.

    ``prefix_hash`` is a digest over all tokens and images that the plan was computed from.
    """

    stalest_epoch: int
    freshest_epoch: int
    exactness: Exactness
    prefix_hash: str = ''


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One skill with its target.

    ``target_in_base_m`` is x, y, z of the tool [m], None for HOME; ``tool_yaw_rad`` 0 closes the
    fingers along the base's y axis; ``gripper_opening`` 0 closed to 1 open, wanted at the end;
    ``speed`` is the share of the joints' limits, (0, 1]; ``point`` is in the image, 0 to 1.
    """

    skill: Skill
    target_in_base_m: tuple[float, float, float] | None = None
    tool_yaw_rad: float = 0.0
    gripper_opening: float = 1.0
    speed: float = 1.0
    success: SuccessCondition = SuccessCondition.AT_TARGET
    object_name: str = ''
    point: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """The backbone's answer to one turn; ``steps`` is empty unless the outcome is STEPS.

    ``call`` is the tool call that the steps carry out, None for a plain plan; ``lesson`` is the
    answer to a turn whose purpose is REFLECT, empty otherwise; ``certificate`` is None where the
    backbone gave none.
    """

    outcome: Outcome
    steps: tuple[PlanStep, ...] = ()
    thought: str = ''
    reason: str = ''
    latent: tuple[float, ...] = field(default=())
    confidence: float = 0.0
    call: ToolCall | None = None
    lesson: str = ''
    certificate: Certificate | None = None

    @property
    def ends_holding(self) -> bool:
        """True if the task is to have the thing in the gripper at the end."""
        return bool(self.steps) and self.steps[-1].skill is Skill.HOLD

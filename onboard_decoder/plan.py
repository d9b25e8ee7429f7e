# SPDX-License-Identifier: Apache-2.0
"""What the backbone decided, as plain values: a plan of steps, or done, or a refusal.

Knows nothing of messages, tokens or joints.
"""

from dataclasses import dataclass, field
from enum import Enum


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
    """The backbone's answer to one turn; ``steps`` is empty unless the outcome is STEPS."""

    outcome: Outcome
    steps: tuple[PlanStep, ...] = ()
    thought: str = ''
    reason: str = ''
    latent: tuple[float, ...] = field(default=())
    confidence: float = 0.0

    @property
    def ends_holding(self) -> bool:
        """True if the task is to have the thing in the gripper at the end."""
        return bool(self.steps) and self.steps[-1].skill is Skill.HOLD

# SPDX-License-Identifier: Apache-2.0
"""What came of a tool call: told from what the robot measures, never from what was planned.

The same rules serve a call that came to its end, one that failed and one that was cut off: an
outcome that nobody saw is read from the robot, the call is not repeated.
"""

from dataclasses import dataclass

from onboard_decoder.agent.task_result import FailureCode
from onboard_decoder.plan import Skill
from onboard_decoder.task_memory import StepResult, Tool

_LOST = {
    StepResult.MISSED: FailureCode.MISS,
    StepResult.SLIPPED: FailureCode.SLIP,
    StepResult.FELL: FailureCode.DROP,
}


@dataclass(frozen=True, slots=True)
class Measured:
    """What the robot knows at the end of a call.

    Attributes:
      reached: the skill under way, None after the last step.
      was_held: whether the gripper has held the thing since the call was begun.
      holds: whether it does now.
      is_closed: whether there is nothing between the fingers.
      let_go: whether the fingers have opened as they should.
      was_dropped: whether the fingers closed on the way down to the place.
    """

    reached: Skill | None
    was_held: bool
    holds: bool
    is_closed: bool = False
    let_go: bool = False
    was_dropped: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """What came of a call; ``code`` is None where nothing was wrong."""

    result: StepResult
    code: FailureCode | None = None
    reason: str = ''


def effect_of(
    tool: Tool, seen: Measured, code: FailureCode = FailureCode.MOTION, reason: str = ''
) -> Effect:
    """Return the effect of a moving tool.

    Args:
      tool: that was used.
      seen: what was measured.
      code: why the call did not come to its end, where it did not.
      reason: the same for people.
    """
    result = _RULES[tool](seen)
    if result is StepResult.FAILED:
        return Effect(result, code, reason)
    return Effect(result, _LOST.get(result), reason if result in _LOST else '')


def _grasped(seen: Measured) -> StepResult:
    if seen.holds:
        return StepResult.HELD if seen.reached in (None, Skill.LIFT) else StepResult.FAILED
    if seen.was_held:
        return StepResult.SLIPPED
    tried = seen.reached in (None, Skill.GRASP)
    return StepResult.MISSED if tried and seen.is_closed else StepResult.FAILED


def _brought(seen: Measured) -> StepResult:
    if seen.was_dropped:
        return StepResult.FELL
    if seen.let_go:
        return StepResult.PLACED
    if seen.holds:
        return StepResult.FAILED
    return StepResult.FELL if seen.reached is Skill.PLACE else StepResult.SLIPPED


def _released(seen: Measured) -> StepResult:
    if seen.was_dropped:
        return StepResult.FELL
    if seen.let_go:
        return StepResult.RELEASED
    return StepResult.FAILED if seen.holds else StepResult.FELL


def _pushed(seen: Measured) -> StepResult:
    has_pushed = seen.reached in (None, Skill.LIFT, Skill.HOME)
    return StepResult.PUSHED if has_pushed else StepResult.FAILED


def _looked(seen: Measured) -> StepResult:
    return StepResult.SEEN if seen.reached is None else StepResult.FAILED


_RULES = {
    Tool.GRASP: _grasped,
    Tool.PLACE: _brought,
    Tool.STACK: _brought,
    Tool.RELEASE: _released,
    Tool.PUSH: _pushed,
    Tool.LOOK: _looked,
}

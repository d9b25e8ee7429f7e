# SPDX-License-Identifier: Apache-2.0
"""What the robot checks before it carries out a call; no model is involved, and none can relax it.

Knows the tools' needs, the workspace and ages; nothing of motion.
"""

from dataclasses import dataclass

from onboard_decoder.agent.task_result import FailureCode
from onboard_decoder.agent.tools import Hand, IN_CONTACT, missing, TOOLS
from onboard_decoder.manifest import Manifest
from onboard_decoder.plan import ActionPlan, Outcome, Skill
from onboard_decoder.task_memory import Tool, ToolCall


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a call is not carried out."""

    code: FailureCode
    reason: str


@dataclass(frozen=True, slots=True)
class Situation:
    """What the checks look at.

    ``scene_age_s`` is the age of the oldest image that the call rests on [s]; ``has_changed`` is
    whether a newer image shows something else around the call's targets.
    """

    holds: bool
    scene_age_s: float
    has_changed: bool = False


_OUTCOMES = {
    Tool.ASK: Outcome.ASK, Tool.DONE: Outcome.DONE, Tool.STOP: Outcome.REFUSED,
}  # of all other tools: steps


class Interlocks:
    """Objects to calls that must not or cannot be carried out."""

    def __init__(self, manifest: Manifest, scene_max_age_s: float) -> None:
        self._box, self._scene_max_age_s = manifest.workspace, scene_max_age_s

    def malformed(self, plan: ActionPlan) -> str | None:
        """Return why an answer is no tool call at all; None if it is one."""
        if plan.call is None:
            return f'an answer ({plan.outcome.value}) without a tool call'
        problem = missing(plan.call)
        if problem is not None:
            return problem
        tool, spec = plan.call.tool, TOOLS[plan.call.tool]
        outcome = _OUTCOMES.get(tool, Outcome.STEPS)
        if plan.outcome is not outcome:
            return f'{tool.value} with outcome {plan.outcome.value}, expected {outcome.value}'
        if not spec.moves and plan.steps:
            return f'{tool.value} with {len(plan.steps)} steps'
        return None if spec.own_steps or not spec.moves else _wrong_contact(plan, spec.contact)

    def objection(
        self, call: ToolCall, plan: ActionPlan, situation: Situation
    ) -> Objection | None:
        """Return why a well-formed call is not carried out; None if nothing speaks against it."""
        spec = TOOLS[call.tool]
        if spec.hand is Hand.FULL and not situation.holds:
            return Objection(FailureCode.ORDER, f'{call.tool.value}: the gripper holds nothing')
        if spec.hand is Hand.EMPTY and situation.holds:
            return Objection(FailureCode.ORDER, f'{call.tool.value}: the gripper is not empty')
        if not spec.moves or spec.own_steps:
            return None
        if situation.scene_age_s > self._scene_max_age_s:
            return Objection(
                FailureCode.STALE,
                f'{call.tool.value}: the image is {situation.scene_age_s:.1f} s old, allowed are '
                f'{self._scene_max_age_s:g} s',
            )
        if situation.has_changed:
            return Objection(FailureCode.STALE, f'{call.tool.value}: the scene has changed')
        problem = self.outside_workspace(plan)
        return None if problem is None else Objection(FailureCode.UNREACHABLE, problem)

    def outside_workspace(self, plan: ActionPlan) -> str | None:
        """Return which step leads out of the workspace, if one does."""
        for index, step in enumerate(plan.steps):
            target = step.target_in_base_m
            if target is not None and not self._box.contains(target):
                return (
                    f'{step.skill.value} {index}: target {target} m is outside the workspace '
                    f'{self._box.lower_m} to {self._box.upper_m}'
                )
        return None


def _wrong_contact(plan: ActionPlan, contact: Skill | None) -> str | None:
    """Return why steps do not touch things once, as their tool does; None if they do."""
    assert plan.call is not None
    touching = [step.skill for step in plan.steps if step.skill in IN_CONTACT]
    if touching == [contact]:
        return None
    said = ', '.join(skill.value for skill in touching) or 'no step that touches anything'
    return f'{plan.call.tool.value} with {said}, expected one {contact and contact.value}'

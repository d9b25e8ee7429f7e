# SPDX-License-Identifier: Apache-2.0
"""Carries out one tool call at a time: at most once, within its deadline, and measured at the end.

Runs steps through ``StepRunner``. Knows neither the backbone nor why a tool was called. Nothing
here waits; ``advance`` is called as often as the owner likes.
"""

from dataclasses import replace

from onboard_decoder.agent.effects import Effect, effect_of, Measured
from onboard_decoder.agent.step_runner import Body, Progress, StepRunner
from onboard_decoder.agent.success import SuccessJudge
from onboard_decoder.agent.task_result import FailureCode
from onboard_decoder.agent.tools import IN_CONTACT, TOOLS
from onboard_decoder.clock import to_ns
from onboard_decoder.config import RobotSettings
from onboard_decoder.manifest import Vector
from onboard_decoder.observation_intake import JointState
from onboard_decoder.plan import PlanStep, Skill, SuccessCondition
from onboard_decoder.task_memory import StepResult, ToolCall

_LASTING = (StepResult.HELD, StepResult.PLACED, StepResult.PUSHED, StepResult.RELEASED)

Key = tuple[int, int, int]
"""Task, trial and step: names a call for good."""


class ToolRunner:
    """Runs tool calls; a call that was begun once is never begun again."""

    def __init__(self, runner: StepRunner, judge: SuccessJudge, settings: RobotSettings) -> None:
        self._runner, self._judge = runner, judge
        self._deadline_ns = to_ns(settings.agent.tool_deadline_s)
        self._lost_ns = to_ns(settings.success.lost_s)
        self._begun: set[Key] = set()
        self._steps: tuple[PlanStep, ...] = ()
        self._began_ns = 0
        self._closed_since_ns: int | None = None
        self._was_held = self._was_dropped = self._carried_down = False
        self._settled: Effect | None = None  # see ``settle``
        self.call: ToolCall | None = None
        self.grasped_at_m: Vector | None = None

    @property
    def is_before_contact(self) -> bool:
        """True while nothing has been touched by the call under way."""
        step = self._runner.step
        if self.call is None or step is None:
            return False
        contact = TOOLS[self.call.tool].contact
        skills = [entry.skill for entry in self._steps]
        if contact not in skills:
            return False
        at, index = skills.index(contact), self._runner.index
        return index < at or (index == at and index > 0 and self._runner.is_waiting)

    @property
    def is_at_contact(self) -> bool:
        """True between two steps if the next one touches something."""
        step = self._runner.step
        return self._runner.is_waiting and step is not None and step.skill in IN_CONTACT

    def holds(self, joints: JointState) -> bool:
        """True if the gripper holds a thing, as far as the fingers tell."""
        return self._runner.is_carrying and self._judge.is_holding(joints.positions)

    def start(
        self, key: Key, call: ToolCall, steps: tuple[PlanStep, ...], latent: tuple[float, ...],
        body: Body,
    ) -> bool:
        """Begin at the next ``advance``; False, and nothing happens, for a call begun before."""
        if key in self._begun:
            return False
        self._begun.add(key)
        self._runner.start(steps, latent)
        self.call, self._steps, self._began_ns = call, steps, body.now_ns
        self._was_held = self.holds(body.joints)
        self._was_dropped = self._carried_down = False
        self._closed_since_ns = self._settled = None
        return True

    def advance(self, body: Body, may_touch: bool = True) -> Effect | None:
        """Do what is due now.

        Args:
          body: what the body feels.
          may_touch: False lets no step begin that touches something.

        Returns:
          What came of the call, once it is over.
        """
        if self.call is None:
            return None
        if body.now_ns - self._began_ns > self._deadline_ns:
            code = FailureCode.TIMEOUT if body.may_go_on else FailureCode.LINK
            return self.cancel(body, code, 'the tool did not come to its end in time')
        if not may_touch and self.is_at_contact:
            body = replace(body, may_go_on=False)
        progress = self._runner.advance(body)
        self._feel(body)
        if progress in (Progress.RUNNING, Progress.STEP_DONE):
            return None
        code = FailureCode.TIMEOUT if self._runner.has_timed_out else FailureCode.MOTION
        return self._over(body, progress is Progress.ALL_DONE, code, self._runner.failure)

    def settle(self, body: Body) -> Effect | None:
        """Measure what came of the call once the rest of it cannot change that; None before.

        What was let go, pushed, or is held while it is lifted, stays so in the history: the call
        ends with this effect. A thing that is lost later was lost after the call.
        """
        step = self._runner.step
        if self.call is None or step is None or self._runner.is_waiting:
            return None
        if self._settled is None and step.skill in (Skill.LIFT, Skill.HOME):
            effect = effect_of(self.call.tool, self._measured(body, step.skill))
            self._settled = effect if effect.result in _LASTING else None
        return self._settled

    def cancel(self, body: Body, code: FailureCode, reason: str) -> Effect | None:
        """Stop the arm and read from it what came of the call; None if there is none."""
        if self.call is None:
            return None
        return self._over(body, False, code, reason)

    def forget(self) -> None:
        """Drop the call without a measure, where there are no joints to read."""
        self._runner.stop()
        self.call = None

    def _feel(self, body: Body) -> None:
        """Note what happens to the thing on the way."""
        step = self._runner.step
        self._was_held = self._was_held or self._runner.is_carrying
        if step is None or step.skill is not Skill.PLACE or self._runner.is_waiting:
            self._closed_since_ns = None
            return
        self._carried_down = self._carried_down or self._was_held
        if not (self._carried_down and self._judge.is_closed(body.joints.positions)):
            self._closed_since_ns = None
        elif self._closed_since_ns is None:
            self._closed_since_ns = body.now_ns
        elif body.now_ns - self._closed_since_ns >= self._lost_ns:
            self._was_dropped = True

    def _over(self, body: Body, is_done: bool, code: FailureCode, reason: str) -> Effect:
        """Measure, then forget the call."""
        assert self.call is not None
        step, call, settled = self._runner.step, self.call, self._settled
        seen = self._measured(body, None if is_done or step is None else step.skill)
        if seen.holds:
            self._note_place()
        self.forget()
        self._runner.is_carrying = seen.holds
        return settled or effect_of(call.tool, seen, code, reason)

    def _measured(self, body: Body, reached: Skill | None) -> Measured:
        """Read what the robot knows of the call now."""
        let_go = any(
            entry.success is SuccessCondition.RELEASED
            for entry in self._steps[:self._runner.index]
        )
        grips = self._judge.is_holding(body.joints.positions)
        return Measured(
            reached=reached,
            was_held=self._was_held,
            holds=grips and self._was_held and not (let_go or self._was_dropped),
            is_closed=self._judge.is_closed(body.joints.positions),
            let_go=let_go,
            was_dropped=self._was_dropped,
        )

    def _note_place(self) -> None:
        """Remember where the thing was taken from."""
        for step in self._steps:
            if step.skill is Skill.GRASP and step.target_in_base_m is not None:
                self.grasped_at_m = step.target_in_base_m

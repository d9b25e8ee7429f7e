# SPDX-License-Identifier: Apache-2.0
"""The agent in mode react: one tool call per turn, each checked, carried out and measured.

Think, act, observe; a claim to be done is judged by others; a failed trial gives a lesson and
another trial. ``react_state`` has the states. Knows the backbone through ``TurnAsker``, motion
through ``ToolRunner`` and ``StepRunner``. ``think`` returns at once.
"""

from dataclasses import asdict

from onboard_decoder.agent.away import Away
from onboard_decoder.agent.claim import judged
from onboard_decoder.agent.effects import Effect
from onboard_decoder.agent.lesson_wait import LessonWait
from onboard_decoder.agent.react_parts import ReactParts
from onboard_decoder.agent.react_state import State, States
from onboard_decoder.agent.react_step import ReactStep
from onboard_decoder.agent.records import answer_record
from onboard_decoder.agent.step_over import Claimed, Enough, Halted, StepOver, Stepped, Stopped
from onboard_decoder.agent.step_runner import Body
from onboard_decoder.agent.task_result import FailureCode, Task, TaskOutcome, TaskResult, TrialEnd
from onboard_decoder.agent.turn_asker import GaveUp, Waiting
from onboard_decoder.clock import to_ns, to_s
from onboard_decoder.config import RobotSettings
from onboard_decoder.planner_port import TurnAnswer
from onboard_decoder.task_memory import Purpose, StepResult

_IN_THE_WAY = (StepResult.MISSED, StepResult.SLIPPED, StepResult.FELL, StepResult.FAILED)
_DONE = {TrialEnd.HELD: 'the gripper holds it', TrialEnd.CONFIRMED: 'a second look agrees'}


class ReactLoop:
    """Carries one instruction through; a new one replaces it."""

    def __init__(self, parts: ReactParts, settings: RobotSettings) -> None:
        self._parts, self._log = parts, parts.log
        self._settings, self._limits = settings.agent, settings.limits
        self._states = States(parts.log)
        self._step = ReactStep(parts, settings.agent, self._states)
        self._away = Away(parts.runner, self._states, parts.log)
        self._lesson = LessonWait(parts, settings.agent.reflect_wait_s)
        self._trial = parts.reflexion.trial()
        self._task = Task(0, '')
        self._began_ns = 0
        self._steps = self._overclaims = 0
        self._end_of_trial = (TrialEnd.STOPPED, '')
        self._may_try_again = self._may_go_on = True
        self.result: TaskResult | None = None

    @property
    def instruction(self) -> str:
        """The task under way, empty if there is none."""
        return self._task.instruction

    @property
    def phase(self) -> State:
        """What the agent is doing; HOLD while it waits for the link to do it."""
        state, asker = self._states.now, self._parts.asker
        renews = asker.waiting is Waiting.IMAGE and asker.trouble  # an image that became old
        waits = asker.waiting in (Waiting.BACKBONE, Waiting.RETRY) or renews
        if state in (State.OBSERVE, State.THINK) and waits:
            return State.HOLD
        is_held_up = self._parts.runner.is_waiting and not self._may_go_on
        return State.HOLD if self.is_moving and is_held_up else state

    @property
    def is_moving(self) -> bool:
        """True while steps are run."""
        return self._states.now in (State.ACT, State.RESET)

    @property
    def attempts(self) -> int:
        """Number of the trial."""
        return self._trial.number

    @property
    def tool(self) -> str:
        """The tool in use, empty if there is none."""
        return self._step.call.tool.value if self._step.call is not None else ''

    @property
    def question(self) -> str:
        """What a person is asked, empty if nothing is."""
        return self._parts.person.question

    def wants_image(self, now_ns: int) -> bool:
        """True when a new image is of use while none is waited for."""
        if self._parts.ahead.wants_image:
            return True
        if self._states.now is State.ACT:
            return self._parts.watch.wants_image(now_ns)
        return self._states.now is State.THINK and self._settings.watch == 'exact'

    def answer(self, text: str) -> bool:
        """Take a person's answer; False if nothing is asked."""
        return self._parts.person.answer(text)

    def begin(self, instruction: str, now_ns: int) -> None:
        """Take an instruction; one that is under way is stopped."""
        self.stop('replaced by another instruction', now_ns)
        self._task = Task(self._task.number + 1, instruction)
        self._began_ns, self.result = now_ns, None
        self._steps = self._overclaims = 0
        self._log('task', instruction=instruction, mode='react', task_number=self._task.number)
        self._parts.asker.reset()
        self._parts.reflexion.forget(instruction)
        self._trial = self._parts.reflexion.trial()
        self._begin_trial()
        self._step.observe(now_ns)  # of a new task nothing is used up

    def stop(self, reason: str, now_ns: int) -> None:
        """End the task, if there is one."""
        if self.instruction:
            self._step.cut_off(Effect(StepResult.STOPPED, FailureCode.SAFETY, reason))
            self._states.enter(State.ABORT)
            self._end(TaskOutcome.STOPPED, TrialEnd.STOPPED, reason, now_ns)

    def think(self, body: Body, rest_since_ns: int | None) -> None:
        """Do what is due now. Never waits.

        Args:
          body: what the body feels.
          rest_since_ns: since when the arm is at rest; None while it moves.
        """
        if not self.instruction or self.expire(body):
            return
        self._may_go_on = body.may_go_on
        state = self._states.now
        if state is State.RESET:
            self._away.advance(body)
            if self._states.now is State.RESET and self._away.asks_then:
                self._step.ask_ahead(body)
        elif state is State.VERIFY:
            self._await_second_look(body, rest_since_ns)
        elif state is State.REFLECT:
            if self._lesson.is_over(body, rest_since_ns, self._trial):
                self._try_again(body)
        else:
            self._take(self._step.advance(body, rest_since_ns), body)

    def _begin_trial(self) -> None:
        """Begin the trial that has been made."""
        self._states.enter(State.GOAL)
        self._log('trial', trial=self._trial.number, lessons=[
            lesson.text for lesson in self._trial.lessons])
        self._step.begin(self._task, self._trial)

    def _observe(self, body: Body) -> None:
        """Go on with the next step."""
        self._take(self._step.observe(body.now_ns), body)

    def expire(self, body: Body) -> bool:
        """End a task that takes too long, and say whether it did; the arm stops where it is."""
        if not self.instruction:
            return False
        most_s = self._limits.max_task_s * self._trial.number  # each trial brings its time
        if body.now_ns - self._began_ns <= to_ns(most_s):
            return False
        reason = f'not done after {most_s:g} s'
        self._step.cut_off(Effect(StepResult.STOPPED, FailureCode.BUDGET, reason), body)
        self._states.enter(State.ABORT)
        self._end(TaskOutcome.FAILED, TrialEnd.TIME_LIMIT, reason, body.now_ns)
        return True

    def _take(self, over: StepOver | None, body: Body) -> None:
        """Decide by how a step ended."""
        if isinstance(over, Stepped):
            self._take_effect(over.effect, body)
        elif isinstance(over, Claimed):
            self._states.enter(State.VERIFY)
            self._step.ask(Purpose.CHECK, body.now_ns)
        elif isinstance(over, Halted):
            self._take_halt(over, body)
        elif isinstance(over, Stopped):
            self._take_stop(over.reason, body)
        elif isinstance(over, Enough) and over.is_final:
            self._end(TaskOutcome.FAILED, over.end, over.reason, body.now_ns)
        elif over is not None:
            self._fail_trial(over.end, over.reason, body)

    def _take_effect(self, effect: Effect, body: Body) -> None:
        """Go on after a call, out of the way first where it failed."""
        end = self._trial.over()
        if end is not None:
            self._fail_trial(end, effect.reason, body)
        elif effect.result in _IN_THE_WAY:
            steps = self._parts.motions.retreat(body.joints, self._holds(body))
            self._away.begin(steps, self._observe, asks_then=True)
        else:
            self._observe(body)

    def _take_halt(self, halt: Halted, body: Body) -> None:
        """Take up the newer choice, from above the things; without one look from home."""
        motions, holds, decision = self._parts.motions, self._holds(body), halt.decision
        if decision is None:
            if holds:
                self._observe(body)
            else:
                steps = motions.away(body.joints, is_carrying=False)
                self._away.begin(steps, self._observe, asks_then=True)
        elif halt.is_low:
            lift = motions.retreat(body.joints, holds)[:1]
            self._away.begin(
                lift, lambda then: self._take(self._step.take_up(decision, then), then)
            )
        else:
            self._take(self._step.take_up(decision, body), body)

    def _take_stop(self, reason: str, body: Body) -> None:
        """Refuse what was never begun, fail what was."""
        trial = self._trial
        if trial.is_unanswered:
            self._fail_trial(TrialEnd.UNANSWERED, reason, body, may_try_again=False)
        elif trial.number == 1 and not trial.has_touched:
            self._end(TaskOutcome.REFUSED, TrialEnd.REFUSED, reason, body.now_ns)
        else:
            self._fail_trial(TrialEnd.GAVE_UP, reason, body)

    def _await_second_look(self, body: Body, rest_since_ns: int | None) -> None:
        """Let the robot's own measure and a second look judge the claim to be done."""
        answer = self._parts.ahead.advance(body, rest_since_ns)
        if isinstance(answer, GaveUp):
            reason = f'the claim could not be checked: {answer.reason}'
            self._end(TaskOutcome.FAILED, answer.end, reason, body.now_ns)
        elif answer is not None:
            self._log('second_look', **answer_record(answer.turn_id, answer.plan))
            end = judged(answer.plan, self._holds(body), self._trial.has_place)
            if end is not None:
                self._end(TaskOutcome.DONE, end, _DONE[end], body.now_ns)
            else:
                self._take_overclaim(answer, body)

    def _take_overclaim(self, answer: TurnAnswer, body: Body) -> None:
        """Never report done what is not; look around, so that the next thought has news."""
        self._overclaims += 1
        self._step.deny('a second look does not agree')
        self._log('overclaim', trial=self._trial.number, thought=answer.plan.thought)
        end = self._trial.over()
        if end is not None:
            self._fail_trial(end, 'claimed to be done, and is not', body)
        else:
            self._take(self._step.look_around(body), body)

    def _fail_trial(
        self, end: TrialEnd, reason: str, body: Body, may_try_again: bool = True
    ) -> None:
        """End a trial: put down what is held, go home, draw a lesson, try again."""
        trial = self._trial
        self._parts.ahead.cancel()
        self._log('trial_failed', trial=trial.number, end=end.value, reason=reason,
                  codes={code.value: count for code, count in trial.codes.items()})
        self._parts.reflexion.credit(trial, has_won=False)
        self._end_of_trial, self._may_try_again = (end, reason), may_try_again
        motions, tools = self._parts.motions, self._parts.tools
        if self._holds(body):
            self._away.begin(motions.put_down(body.joints, tools.grasped_at_m), self._reflect)
        else:
            self._away.begin(motions.away(body.joints, is_carrying=False), self._reflect)

    def _reflect(self, body: Body) -> None:
        """Ask for a lesson, if the trial has one to give."""
        if self._parts.reflexion.is_worth_it(self._trial):
            self._states.enter(State.REFLECT)
            self._lesson.begin(body.now_ns)
            self._step.ask(Purpose.REFLECT, body.now_ns)
        else:
            self._try_again(body)

    def _try_again(self, body: Body) -> None:
        """Begin the next trial, if there is one left."""
        end, reason = self._end_of_trial
        if not self._may_try_again or self._trial.number >= self._settings.max_trials:
            self._end(TaskOutcome.FAILED, end, reason, body.now_ns)
            return
        self._steps += len(self._trial.entries)
        self._trial = self._parts.reflexion.trial(after=self._trial)
        self._begin_trial()
        self._observe(body)

    def _holds(self, body: Body) -> bool:
        return self._parts.tools.holds(body.joints)

    def _end(self, outcome: TaskOutcome, end: TrialEnd, reason: str, now_ns: int) -> None:
        """Remember how it ended and rest."""
        parts = self._parts
        if outcome is TaskOutcome.DONE:
            parts.reflexion.credit(self._trial, has_won=True)
        parts.ahead.cancel()
        parts.watch.end()
        parts.person.withdraw()
        parts.tools.forget()
        self.result = TaskResult(
            self.instruction, outcome, reason, self._trial.number, parts.asker.turn_count,
            to_s(now_ns - self._began_ns), end, self._steps + len(self._trial.entries),
            self._overclaims,
        )
        self._log('result', **{**asdict(self.result), 'outcome': outcome.value, 'end': end.value})
        self._task = Task(self._task.number, '')
        self._states.enter(State.IDLE)

# SPDX-License-Identifier: Apache-2.0
"""The agent in its simplest honest form: look, ask, execute, look again; done, retry or give up.

Knows questions through ``TurnAsker`` and motion through ``StepRunner``. ``think`` returns at once;
while it has nothing to do the arm holds.
"""

from enum import Enum

from onboard_decoder.agent.interlocks import Interlocks
from onboard_decoder.agent.motions import Motions
from onboard_decoder.agent.plan_ahead import PlanAhead, Question
from onboard_decoder.agent.records import answer_record
from onboard_decoder.agent.step_runner import Body, Progress, StepRunner
from onboard_decoder.agent.success import SuccessJudge
from onboard_decoder.agent.task_result import TaskOutcome, TaskResult
from onboard_decoder.agent.turn_asker import GaveUp, Log, TurnAsker, Waiting
from onboard_decoder.clock import to_ns, to_s
from onboard_decoder.config import TaskLimits
from onboard_decoder.plan import ActionPlan, Outcome
from onboard_decoder.planner_port import TurnAnswer
from onboard_decoder.trace_collector import TraceCollector


class Phase(Enum):
    """What the agent is doing."""

    IDLE = 'idle'
    LOOKING = 'looking'
    ASKING = 'asking'
    ACTING = 'acting'
    RETREATING = 'retreating'


class TaskLoop:
    """Carries one instruction through; a new one replaces it."""

    def __init__(
        self,
        motions: Motions,
        interlocks: Interlocks,
        asker: TurnAsker,
        ahead: PlanAhead,
        runner: StepRunner,
        judge: SuccessJudge,
        limits: TaskLimits,
        traces: TraceCollector,
        log: Log,
    ) -> None:
        self._motions, self._interlocks = motions, interlocks
        self._asker, self._ahead = asker, ahead
        self._runner, self._judge = runner, judge
        self._limits, self._traces, self._log = limits, traces, log
        self._acting = Phase.IDLE  # ACTING or RETREATING while steps are run
        self._began_ns = 0
        self._plan: ActionPlan | None = None
        self._last_failure = ''
        self.instruction = ''
        self.attempts = 0
        self.result: TaskResult | None = None

    @property
    def phase(self) -> Phase:
        """What the agent is doing."""
        if self._acting is not Phase.IDLE or not self.instruction:
            return self._acting
        return Phase.LOOKING if self._asker.waiting is Waiting.IMAGE else Phase.ASKING

    @property
    def is_moving(self) -> bool:
        """True while steps are run."""
        return self._acting is not Phase.IDLE

    @property
    def tool(self) -> str:
        """Empty: this agent carries out plans."""
        return ''

    @property
    def question(self) -> str:
        """Empty: this agent asks no person."""
        return ''

    def wants_image(self, now_ns: int) -> bool:
        """True while an answer that was asked for ahead is to be judged."""
        return self._ahead.wants_image

    def answer(self, text: str) -> bool:
        """Return False: nothing was asked."""
        return False

    @property
    def plan(self) -> ActionPlan | None:
        """The plan of this attempt."""
        return self._plan

    def begin(self, instruction: str, now_ns: int) -> None:
        """Take an instruction; one that is under way is stopped."""
        if self.instruction:
            self.stop('replaced by another instruction', now_ns)
        self._log('task', instruction=instruction)
        self.instruction, self._began_ns = instruction, now_ns
        self.attempts, self.result, self._plan, self._last_failure = 0, None, None, ''
        self._asker.reset()
        self._ahead.begin(Question(instruction), now_ns)

    def stop(self, reason: str, now_ns: int) -> None:
        """End the task, if there is one."""
        if self.instruction:
            self._end(TaskOutcome.STOPPED, reason, now_ns)

    def expire(self, body: Body) -> bool:
        """End a task that takes too long, and say whether it did."""
        is_early = body.now_ns - self._began_ns <= to_ns(self._limits.max_task_s)
        if not self.instruction or is_early:
            return False
        reason = f'not done after {self._limits.max_task_s:g} s'
        self._end(TaskOutcome.FAILED, reason, body.now_ns)
        return True

    def think(self, body: Body, rest_since_ns: int | None) -> None:
        """Do what is due now. Never waits.

        Args:
          body: what the body feels.
          rest_since_ns: since when the arm is at rest; None while it moves.
        """
        if not self.instruction or self.expire(body):
            return
        if self._acting is Phase.IDLE:
            answer = self._ahead.advance(body, rest_since_ns)
            if isinstance(answer, GaveUp):
                self._end(TaskOutcome.FAILED, answer.reason, body.now_ns)
            elif answer is not None:
                self._take_up(answer, body)
        else:
            self._act(body)

    def _take_up(self, answer: TurnAnswer, body: Body) -> None:
        """Decide by the kind of answer."""
        plan = answer.plan
        self._log('answer', **answer_record(answer.turn_id, plan))
        if plan.outcome is not Outcome.STEPS and self._asker.trace is not None:
            self._traces.close(self._asker.trace)
        if plan.outcome is Outcome.DONE:
            self._end(TaskOutcome.DONE, plan.reason, body.now_ns)
        elif plan.outcome is Outcome.REFUSED:
            first = self.attempts == 0
            outcome = TaskOutcome.REFUSED if first else TaskOutcome.FAILED
            self._end(outcome, plan.reason, body.now_ns)
        elif self.attempts >= self._limits.max_attempts:
            reason = self._last_failure or 'the backbone still sees work to do'
            self._end(TaskOutcome.FAILED, f'{self.attempts} attempts: {reason}', body.now_ns)
        elif (problem := self._interlocks.outside_workspace(plan)) is not None:
            self.attempts += 1
            self._last_failure = problem
            self._log('plan_refused', reason=problem)
            self._look_again(body.now_ns)
        else:
            self._start(plan, body)

    def _start(self, plan: ActionPlan, body: Body) -> None:
        """Begin with the first step at once: its first chunk is part of the turn's latency."""
        self.attempts += 1
        self._plan, self._acting = plan, Phase.ACTING
        self._runner.start(plan.steps, plan.latent)
        trace = self._asker.trace
        self._act(body)
        first = self._runner.newest
        if trace is not None and first is not None:
            self._traces.watch(trace, first)

    def _act(self, body: Body) -> None:
        """Run the steps."""
        index = self._runner.index
        progress = self._runner.advance(body)
        if progress is Progress.RUNNING:
            self._ask_ahead(body)
            return
        self._log('step', index=index, progress=progress.value, failure=self._runner.failure)
        if self._acting is Phase.RETREATING:
            if progress is not Progress.STEP_DONE:
                self._look_again(body.now_ns)
        elif progress is Progress.FAILED:
            self._last_failure = self._runner.failure
            self._retreat(body)
        elif progress is Progress.ALL_DONE:
            self._finish_attempt(body)

    def _ask_ahead(self, body: Body) -> None:
        """Ask on the way home from a failure; what a plan has come to is seen at rest."""
        is_due = self._ahead.is_due(self._runner.left_s(body.now_ns))
        if self._acting is Phase.RETREATING and is_due:
            self._ahead.put(Question(self.instruction), body)
        self._ahead.go_on(body)

    def _finish_attempt(self, body: Body) -> None:
        """After the last step: a pick is judged by the gripper, all else by a new look."""
        if self._plan is None or not self._plan.ends_holding:
            self._look_again(body.now_ns)
        elif self._judge.is_holding(body.joints.positions):
            self._end(TaskOutcome.DONE, 'the gripper holds it', body.now_ns)
        else:
            self._last_failure = 'the gripper holds nothing'
            self._retreat(body)

    def _look_again(self, now_ns: int) -> None:
        """Ask the same instruction about a new image."""
        self._acting = Phase.IDLE
        self._runner.stop()
        self._ahead.begin(Question(self.instruction), now_ns)

    def _retreat(self, body: Body) -> None:
        """Up and home, out of the camera's view, with the gripper as it is if it holds a thing."""
        self._log('retreat', reason=self._last_failure)
        self._acting = Phase.RETREATING
        steps = self._motions.retreat(body.joints, self._runner.is_carrying)
        self._runner.start(steps, is_retreat=True)

    def _end(self, outcome: TaskOutcome, reason: str, now_ns: int) -> None:
        """Remember how it ended and rest."""
        self._ahead.cancel()
        self._runner.stop()
        self.result = TaskResult(
            instruction=self.instruction,
            outcome=outcome,
            reason=reason,
            attempts=self.attempts,
            turns=self._asker.turn_count,
            duration_s=to_s(now_ns - self._began_ns),
        )
        self._log('result', outcome=outcome.value, reason=reason, attempts=self.attempts,
                  turns=self._asker.turn_count, duration_s=self.result.duration_s)
        self.instruction, self._acting = '', Phase.IDLE

# SPDX-License-Identifier: Apache-2.0
"""One step of a trial: observe, think, propose, check, act, verify.

Ends with one measured entry in the trial's history, with a claim, or with the reason why the trial
must end. Judges no claims and begins no trials.
"""

from onboard_decoder.agent.decision import Decision
from onboard_decoder.agent.effects import Effect
from onboard_decoder.agent.interlocks import Situation
from onboard_decoder.agent.plan_ahead import Question
from onboard_decoder.agent.react_parts import ReactParts
from onboard_decoder.agent.react_state import State, States
from onboard_decoder.agent.records import answer_record, entry_record
from onboard_decoder.agent.step_over import Claimed, Enough, Halted, StepOver, Stepped, Stopped
from onboard_decoder.agent.step_runner import Body
from onboard_decoder.agent.task_result import FailureCode, Task, TrialEnd
from onboard_decoder.agent.trial import Trial
from onboard_decoder.agent.turn_asker import GaveUp, Waiting
from onboard_decoder.agent.watch import Revision
from onboard_decoder.clock import to_ns, to_s
from onboard_decoder.config import AgentSettings
from onboard_decoder.observation_intake import JointState
from onboard_decoder.plan import ActionPlan, Outcome
from onboard_decoder.task_memory import Purpose, StepResult, TaskMemory, Tool, ToolCall

_BRAKE_S = 3.0  # what a moving arm needs at most to come to rest
_LOOK = ToolCall(Tool.LOOK)
_BAD_MEMORY = 'bad_memory'


class ReactStep:
    """Runs one step at a time."""

    def __init__(self, parts: ReactParts, settings: AgentSettings, states: States) -> None:
        self._parts, self._settings, self._states = parts, settings, states
        self._task, self._trial = Task(0, ''), parts.reflexion.trial()
        self._last: Decision | None = None  # the one before
        self._halt = Halted(None, False)  # what follows once the arm stands
        self.call: ToolCall | None = None  # the one under way
        self._is_written = False  # its entry
        self._since_ns = self._stale_count = 0
        self._act_s = 0.0  # how long the last call took, a guess for the next

    def begin(self, task: Task, trial: Trial) -> None:
        """Take a trial; nothing happens before ``observe``."""
        self._task, self._trial = task, trial
        self._last = None

    def observe(self, now_ns: int) -> Enough | None:
        """Look and ask for the next call, unless enough was asked."""
        asker, settings = self._parts.asker, self._settings
        if asker.turn_count >= settings.max_turns:
            return Enough(TrialEnd.TURN_LIMIT, f'{asker.turn_count} questions', True)
        if asker.computed_tokens >= settings.max_tokens:
            return Enough(TrialEnd.TOKEN_LIMIT, f'{asker.computed_tokens} tokens', True)
        self._states.enter(State.OBSERVE)
        self.ask(Purpose.ACT, now_ns)
        return None

    def ask(self, purpose: Purpose, now_ns: int) -> None:
        """Look and ask, for a call or for something else about this trial."""
        is_next_call = purpose is Purpose.ACT
        self._parts.ahead.begin(self._question(purpose), now_ns, may_be_ahead=is_next_call)

    def ask_ahead(self, body: Body) -> None:
        """Ask for the next call while the arm moves on, once what came of this one is certain."""
        ahead = self._parts.ahead
        if ahead.is_due(self._parts.runner.left_s(body.now_ns)) and self._is_settled(body):
            ahead.put(self._question(Purpose.ACT), body)
        ahead.go_on(body)

    def _is_settled(self, body: Body) -> bool:
        """True if nothing is open; writes down what came of a call as soon as it is certain."""
        if self.call is None:
            return True
        effect = self._parts.tools.settle(body)
        if effect is not None and not self._is_written:
            self._write(self.call, effect)
        return effect is not None

    def _question(self, purpose: Purpose) -> Question:
        return Question(
            self._task.instruction, lambda joints: self._memory(purpose, joints),
            self._settings.max_turns,
        )

    def advance(self, body: Body, rest_since_ns: int | None) -> StepOver | None:
        """Do what is due now; returns once, when the step is over."""
        state = self._states.now
        if state in (State.OBSERVE, State.THINK):
            return self._await_call(body, rest_since_ns)
        if state is State.ACT:
            return self._act(body)
        if state is State.ASK:
            effect = self._parts.person.poll(body.now_ns)
            return None if effect is None else self._over(effect)
        if state is State.HOLD:
            return self._await_rest(body, rest_since_ns)
        return None

    def deny(self, reason: str) -> None:
        """Write down that the claim just made is not true, so that other calls follow."""
        assert self._last is not None
        assert self._last.plan.call is not None
        effect = Effect(StepResult.REFUSED, FailureCode.OVERCLAIM, reason)
        self._record(self._last.plan.call, effect)

    def look_around(self, body: Body) -> StepOver | None:
        """Let the robot look of its own accord, as a step like any other."""
        assert self._last is not None
        end = self._trial.proposed(_LOOK, is_unchanged=False)
        if end is not None:
            return Enough(end, 'look once more')
        plan = ActionPlan(Outcome.STEPS, call=_LOOK)
        return self._check(_LOOK, Decision('', plan, self._last.frames), body)

    def cut_off(self, effect: Effect, body: Body | None = None) -> None:
        """End the call under way, measured where there is a body, and write it down."""
        if self.call is None:
            return
        tools = self._parts.tools
        if body is not None and effect.code is not None:
            effect = tools.cancel(body, effect.code, effect.reason) or effect
        tools.forget()
        self._record(self.call, effect)

    def _memory(self, purpose: Purpose, joints: JointState) -> TaskMemory:
        return self._trial.memory(purpose, self._parts.tools.holds(joints), self._act_s)

    def _await_call(self, body: Body, rest_since_ns: int | None) -> StepOver | None:
        """Wait for image and answer."""
        asker = self._parts.asker
        answer = self._parts.ahead.advance(body, rest_since_ns)
        if asker.waiting is Waiting.IMAGE:
            self._states.enter(State.OBSERVE)
        elif asker.waiting is Waiting.ANSWER:
            self._states.enter(State.THINK)
        if answer is None:
            return None
        if isinstance(answer, GaveUp):
            return self._given_up(answer, body)
        self._since_ns = body.now_ns
        return self.take_up(Decision(answer.turn_id, answer.plan, dict(asker.frames)), body)

    def _given_up(self, gave_up: GaveUp, body: Body) -> StepOver | None:
        """Ask again without the lessons that the backbone does not take; else it is over."""
        parts, refusal = self._parts, gave_up.reason
        if gave_up.cause == _BAD_MEMORY and self._trial.lessons:
            refused = parts.reflexion.refuse(self._trial, refusal, parts.model())
            parts.log('lessons_refused', texts=refused, reason=refusal)
            return self.observe(body.now_ns)
        return Enough(gave_up.end, refusal, True)

    def take_up(self, decision: Decision, body: Body) -> StepOver | None:
        """Read an answer: claim, stop, or a call to check and begin."""
        self._states.enter(State.PROPOSE)
        plan, parts = decision.plan, self._parts
        parts.log('answer', **answer_record(decision.turn_id, plan))
        before, self._last = self._last, decision
        if not plan.steps and parts.asker.trace is not None:
            parts.traces.close(parts.asker.trace)
        problem = parts.interlocks.malformed(plan)
        if problem is not None or plan.call is None:
            return self._bad_call(problem or 'no call', body.now_ns)
        if plan.call.tool is Tool.DONE:
            return Claimed()
        if plan.call.tool is Tool.STOP:
            return Stopped(plan.reason or plan.thought)
        end = self._trial.proposed(plan.call, self._is_unchanged(before, decision))
        if end is not None:
            return Enough(end, f'{plan.call.tool.value} once more')
        return self._check(plan.call, decision, body)

    def _bad_call(self, problem: str, now_ns: int) -> StepOver | None:
        self._trial.bad_calls += 1
        self._trial.codes[FailureCode.FORMAT] += 1
        self._parts.log('bad_call', reason=problem)
        end = self._trial.over()
        return Enough(end, problem) if end is not None else self.observe(now_ns)

    def _is_unchanged(self, before: Decision | None, now: Decision) -> bool:
        """True if the images of two decisions show the same, as far as the newer one goes."""
        settings = self._settings
        return before is not None and (
            now.change_from(before.frames, settings.watch_radius) < settings.watch_share
        )

    @property
    def _is_restless(self) -> bool:
        """True before a scene that changes again and again: then a call is let through."""
        most = self._settings.watch_turns
        return self._trial.stops_in_a_row >= most or self._stale_count >= most

    def _has_changed(self, decision: Decision) -> bool:
        """True if a change since the decision forbids to act on it."""
        settings = self._settings
        if settings.watch != 'exact' or self._is_restless:
            return False
        newer = self._parts.intake.fresh_frames(decision.taken_ns)
        return newer is not None and (
            decision.change_from(newer, settings.watch_radius) >= settings.watch_share
        )

    def _check(self, call: ToolCall, decision: Decision, body: Body) -> StepOver | None:
        """Let the interlocks decide."""
        self._states.enter(State.CHECK)
        objection = self._parts.interlocks.objection(call, decision.plan, Situation(
            holds=self._parts.tools.holds(body.joints),
            scene_age_s=to_s(body.now_ns - decision.taken_ns),
            has_changed=self._has_changed(decision),
        ))
        if objection is None:
            return self._start(call, decision, body)
        self._parts.log('objection', code=objection.code.value, reason=objection.reason)
        if objection.code is FailureCode.STALE:
            self._stale_count += 1
            return self.observe(body.now_ns)
        return self._over(Effect(StepResult.REFUSED, objection.code, objection.reason), call)

    def _start(self, call: ToolCall, decision: Decision, body: Body) -> StepOver | None:
        """Begin to act; the first chunk is made at once, it is part of the turn's latency."""
        parts, trace = self._parts, self._parts.asker.trace
        if call.tool is Tool.ASK:
            self._states.enter(State.ASK)
            self.call = call
            parts.person.ask(call.question, body.now_ns)
            parts.log('question', question=call.question)
            parts.say(call.question)
            return None
        key = (self._task.number, self._trial.number, self._trial.next_step_id)
        holds, from_m = parts.tools.holds(body.joints), parts.tools.grasped_at_m
        steps = parts.motions.of(call.tool, body.joints, holds, from_m) or decision.plan.steps
        if not parts.tools.start(key, call, steps, decision.plan.latent, body):
            return self.observe(body.now_ns)
        memory = self._memory(Purpose.ACT, body.joints)
        if not self._is_restless:
            parts.watch.begin(decision, self._task.instruction, memory, body.joints)
        self._states.enter(State.ACT)
        self.call, self._since_ns, self._stale_count = call, body.now_ns, 0
        over = self._act(body)
        first = parts.runner.newest
        if trace is not None and trace.turn_id == decision.turn_id and first is not None:
            parts.traces.watch(trace, first)
        return over

    def _act(self, body: Body) -> StepOver | None:
        """Move on, and look on while moving."""
        tools, watch = self._parts.tools, self._parts.watch
        revision = watch.advance(body, tools.is_before_contact, tools.is_at_contact)
        if revision is not None:
            return self._stop_before_contact(revision, body)
        effect = tools.advance(body, watch.may_touch)
        if effect is None:
            self.ask_ahead(body)
            return None
        self._act_s = to_s(body.now_ns - self._since_ns)
        return self._over(effect)

    def _stop_before_contact(self, revision: Revision, body: Body) -> StepOver | None:
        """Let the arm come to rest; then take up the newer choice, or look anew."""
        assert self.call is not None
        self._parts.log('revised', reason=revision.reason, turn_id=(
            revision.decision.turn_id if revision.decision else ''))
        is_low = self._parts.runner.index > 0
        effect = self._parts.tools.cancel(body, FailureCode.REVISED, revision.reason)
        if effect is None or effect.result is StepResult.FAILED:
            effect = Effect(StepResult.STOPPED, FailureCode.REVISED, revision.reason)
        if effect.result is not StepResult.STOPPED:
            return self._over(effect)
        self._record(self.call, effect)
        self._halt, self._since_ns = Halted(revision.decision, is_low), body.now_ns
        self._states.enter(State.HOLD)
        return None

    def _await_rest(self, body: Body, rest_since_ns: int | None) -> StepOver | None:
        """Go on once the arm stands still."""
        brakes = body.now_ns - self._since_ns <= to_ns(_BRAKE_S)
        return None if rest_since_ns is None and brakes else self._halt

    def _over(self, effect: Effect, call: ToolCall | None = None) -> StepOver:
        """Write down what came of a call."""
        self._states.enter(State.VERIFY)
        call = call or self.call
        assert call is not None
        self._record(call, effect)
        return Stepped(effect)

    def _record(self, call: ToolCall, effect: Effect) -> None:
        """Keep the entry, once, and end everything that belonged to the call."""
        if not self._is_written:
            self._write(call, effect)
        self._parts.watch.end()
        self._parts.person.withdraw()
        self.call, self._is_written = None, False

    def _write(self, call: ToolCall, effect: Effect) -> None:
        entry = self._trial.add(call, effect)
        self._parts.log('entry', **entry_record(self._trial.number, entry, effect))
        self._is_written = True

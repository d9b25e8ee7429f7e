# SPDX-License-Identifier: Apache-2.0
"""Asks the next question while the last of a motion plays, so that the arm need not wait for it.

Such an answer rests on an image of a moving arm. It is used only once the arm stands and a newer
image shows the same around every point that the answer goes to; else, and whenever anything else
that it rests on has changed, it is dropped and the question is asked again at rest. What ends a
task, or calls a person, is never decided ahead. Knows questions and images; moves nothing.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from onboard_decoder.agent.image_change import changed_share
from onboard_decoder.agent.sight import Sight
from onboard_decoder.agent.step_runner import Body
from onboard_decoder.agent.turn_asker import GaveUp, Log, Recall, TurnAsker, Waiting
from onboard_decoder.clock import to_s
from onboard_decoder.config import AgentSettings
from onboard_decoder.observation_intake import CameraFrame, JointState, ObservationIntake
from onboard_decoder.plan import ActionPlan, Outcome
from onboard_decoder.planner_port import TurnAnswer
from onboard_decoder.task_memory import TaskMemory

_UNKNOWN_S = 0.25  # how long an answer takes, before there was one
_WINDOW = 5  # answers that are looked back on


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked; ``recall`` is None for a plain question, whose answer may end the task."""

    instruction: str
    recall: Recall | None = None
    most_turns: int | None = None


@dataclass(slots=True)
class _Ahead:
    """A question that was put before the arm stood."""

    question: Question
    memory: TaskMemory | None = None  # as it was sent
    joints: JointState | None = None  # when the image was taken
    answer: TurnAnswer | None = None


class PlanAhead:
    """Asks one question at a time, ahead where that is allowed."""

    def __init__(
        self, asker: TurnAsker, intake: ObservationIntake, sight: Sight, settings: AgentSettings,
        settle_s: float, log: Log,
    ) -> None:
        """Ask nothing yet; ``settle_s`` is how long an arm stands before a motion is over [s]."""
        self._asker, self._intake, self._sight = asker, intake, sight
        self._settings, self._settle_s, self._log = settings, settle_s, log
        self._answers_s: deque[float] = deque(maxlen=_WINDOW)
        self._ahead: _Ahead | None = None

    @property
    def lead_s(self) -> float:
        """How long before the end of a motion the question is due [s]; below 0: after it."""
        answer_s = max(self._answers_s, default=_UNKNOWN_S)
        wanted_s = answer_s + self._settings.ahead_image_s - self._settle_s
        return min(wanted_s, self._settings.ahead_most_s)

    @property
    def wants_image(self) -> bool:
        """True while a newer image is needed to judge what was asked ahead."""
        return self._ahead is not None and self._asker.waiting is not Waiting.IMAGE

    def is_due(self, left_s: float | None) -> bool:
        """Say whether it is time to ask.

        Args:
          left_s: what is left of the motion [s]; None while more steps follow, or nobody knows.
        """
        if self._settings.plan_ahead == 'off' or self._ahead is not None or left_s is None:
            return False
        return left_s <= max(self.lead_s, 0.0)

    def put(self, question: Question, body: Body) -> None:
        """Put a question while the arm moves, unless only one is left, which must be a sure one.

        ``begin`` with the same question takes it up.
        """
        asker = self._asker
        if asker.turn_count + 1 >= asker.most_turns(question.most_turns):
            return
        self._ahead = ahead = _Ahead(question)
        asker.begin(
            question.instruction, body.now_ns,
            recall=question.recall and self._recalled(ahead, question.recall),
            most_turns=question.most_turns, may_move=True,
        )
        self.go_on(body)

    def go_on(self, body: Body) -> None:
        """Look for image and answer while the arm moves."""
        if self._ahead is not None and self._ahead.answer is None:
            self._poll(self._ahead, body, None)

    def begin(self, question: Question, now_ns: int, may_be_ahead: bool = True) -> None:
        """Ask at rest, or take up the same question if it was put ahead and is well under way."""
        ahead = self._ahead
        is_sent = self._asker.waiting is Waiting.ANSWER or (ahead and ahead.answer is not None)
        if may_be_ahead and is_sent and ahead is not None and _is_same(ahead.question, question):
            ahead.question = question
            return
        self._ask(question, now_ns)

    def advance(self, body: Body, rest_since_ns: int | None) -> TurnAnswer | GaveUp | None:
        """Do what is due now; see ``TurnAsker.advance``."""
        ahead = self._ahead
        if ahead is None:
            result = self._asker.advance(body.now_ns, rest_since_ns, body.joints)
            self._learn(result)
            return result
        if ahead.answer is None:
            self._poll(ahead, body, rest_since_ns)
        if self._ahead is None or ahead.answer is None or rest_since_ns is None:
            return None
        frames = self._intake.fresh_frames(rest_since_ns)
        if frames is None:
            self._await_image(ahead, body.now_ns, rest_since_ns)
            return None
        problem = self._problem(ahead, ahead.answer.plan, frames, body)
        if problem:
            self._again(ahead, problem, body.now_ns)
            return None
        return self._used(ahead.answer, frames)

    def cancel(self) -> None:
        """Withdraw the question."""
        self._ahead = None
        self._asker.cancel()

    def _ask(self, question: Question, now_ns: int) -> None:
        """Ask about an image of the resting arm."""
        self._ahead = None
        self._asker.begin(
            question.instruction, now_ns, recall=question.recall, most_turns=question.most_turns
        )

    def _recalled(self, ahead: _Ahead, recall: Recall) -> Recall:
        """Remember what is sent."""
        def remembering(joints: JointState) -> TaskMemory:
            ahead.memory = recall(joints)
            return ahead.memory
        return remembering

    def _poll(self, ahead: _Ahead, body: Body, rest_since_ns: int | None) -> None:
        """Look for image and answer; a question that fails is asked again at rest."""
        result = self._asker.advance(body.now_ns, rest_since_ns, body.joints)
        self._learn(result)
        if ahead.joints is None and self._asker.waiting is Waiting.ANSWER:
            ahead.joints = body.joints
        if isinstance(result, TurnAnswer):
            ahead.answer = result
        elif isinstance(result, GaveUp) or self._asker.waiting is Waiting.RETRY:
            self._again(ahead, 'no answer', body.now_ns)

    def _learn(self, result: TurnAnswer | GaveUp | None) -> None:
        """Note how long an answer took."""
        if isinstance(result, TurnAnswer):
            self._answers_s.append(to_s(result.received_ns - result.sent_ns))

    def _await_image(self, ahead: _Ahead, now_ns: int, rest_since_ns: int) -> None:
        """Wait for an image of the resting arm; not for long: a new question gives up in time."""
        if to_s(now_ns - rest_since_ns) > self._settings.ahead_wait_s:
            self._again(ahead, 'no image at rest', now_ns)

    def _problem(
        self, ahead: _Ahead, plan: ActionPlan, frames: Mapping[str, CameraFrame], body: Body
    ) -> str:
        """Return why an answer must not be used; empty if it may be."""
        recall, sent, settings = ahead.question.recall, ahead.memory, self._settings
        if plan.outcome in (Outcome.REFUSED, Outcome.ASK):
            return f'{plan.outcome.value} is decided at rest'
        if plan.outcome is Outcome.DONE and recall is None:
            return 'done is decided at rest'
        if recall is not None and (sent is None or not _agree(sent, recall(body.joints))):
            return 'something else has happened'
        if not _are_in_image(plan):
            return 'where in the image a target lies was not said'
        points = tuple(dict.fromkeys(step.point for step in plan.steps if step.point))
        for joints in (ahead.joints, body.joints):
            if joints is None or len(self._sight.visible(points, joints)) < len(points):
                return 'the hand is in view'
        name = self._sight.camera.name
        share = changed_share(
            self._asker.frames[name].rgb, frames[name].rgb, points, settings.watch_radius
        )
        return '' if share < settings.watch_share else f'{share:.0%} of the image has changed'

    def _again(self, ahead: _Ahead, reason: str, now_ns: int) -> None:
        """Drop the answer, and ask at rest."""
        self._log_end(ahead.answer, reason)
        self._ask(ahead.question, now_ns)

    def _used(self, answer: TurnAnswer, frames: dict[str, CameraFrame]) -> TurnAnswer:
        """Hand the answer out, as one that the newest images agree with."""
        self._log_end(answer, '')
        self._ahead = None
        self._asker.frames = frames
        self._asker.trace = None  # how long it waited for the arm is no latency
        return answer

    def _log_end(self, answer: TurnAnswer | None, reason: str) -> None:
        turn_id = answer.turn_id if answer is not None else ''
        self._log('ahead', turn_id=turn_id, is_used=not reason, reason=reason)


def _is_same(one: Question, other: Question) -> bool:
    """True if the words agree, and both rest on a memory or neither does."""
    return one.instruction == other.instruction and (one.recall is None) == (other.recall is None)


def _are_in_image(plan: ActionPlan) -> bool:
    """True if every target lies at a point of the image, or above one that does."""
    targets = [step for step in plan.steps if step.target_in_base_m is not None]
    above = {step.target_in_base_m[:2] for step in targets if step.target_in_base_m and step.point}
    return all(
        step.point or (step.target_in_base_m and step.target_in_base_m[:2] in above)
        for step in targets
    )


def _agree(sent: TaskMemory, now: TaskMemory) -> bool:
    """True if an answer to one memory is one to the other."""
    return replace(sent, expected_resume_s=0.0) == replace(now, expected_resume_s=0.0)

# SPDX-License-Identifier: Apache-2.0
"""One question to the backbone, with all its waiting: fresh image, session, answer, back-off.

Knows the planner's port and the intake; not what the answer is good for. ``advance`` returns at
once and is called as often as the owner likes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from onboard_decoder.agent.task_result import TrialEnd
from onboard_decoder.agent.turn_maker import TurnMaker
from onboard_decoder.clock import Clock, to_ns, to_s
from onboard_decoder.config import TaskLimits, WatchdogLimits
from onboard_decoder.errors import PlannerUnavailable
from onboard_decoder.latency_budget import TurnTrace
from onboard_decoder.observation_intake import CameraFrame, JointState, ObservationIntake
from onboard_decoder.planner_port import (
    Grant,
    PendingTurn,
    PlannerPort,
    Remedy,
    TurnAnswer,
    TurnFailure,
)
from onboard_decoder.task_memory import TaskMemory

Log = Callable[..., None]
Recall = Callable[[JointState], TaskMemory]
"""Returns what a turn rests on, at the moment when it is sent."""

_GRACE_S = 1.0  # behind a turn's deadline; then the port has forgotten the turn


class Waiting(Enum):
    """What the question waits for."""

    NOTHING = 'nothing'
    IMAGE = 'image'
    BACKBONE = 'backbone'
    ANSWER = 'answer'
    RETRY = 'retry'


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The question will not be answered; ``cause`` is the backbone's word for why, if it said."""

    reason: str
    end: TrialEnd = TrialEnd.NO_ANSWER
    cause: str = ''


class TurnAsker:
    """Asks one question at a time."""

    def __init__(
        self,
        intake: ObservationIntake,
        planner: PlannerPort,
        clock: Clock,
        limits: TaskLimits,
        watchdog: WatchdogLimits,
        log: Log,
        maker: TurnMaker | None = None,
    ) -> None:
        self._intake, self._planner, self._clock = intake, planner, clock
        self._limits, self._log = limits, log
        self._maker = maker or TurnMaker(limits.turn_deadline_s)
        self._stale_ns = to_ns(watchdog.image_stale_s)
        self._instruction = ''
        self._began_ns = self._looking_since_ns = self._retry_at_ns = 0
        self._recall: Recall | None = None
        self._may_move = False
        self._most_turns = limits.max_turns
        self.frames: dict[str, CameraFrame] = {}
        self._pending: PendingTurn | None = None
        self._retry_s = limits.retry_first_s
        self._turn_id = ''
        self._asked_ns: int | None = None
        self.waiting = Waiting.NOTHING
        self.trouble = ''
        self.trace: TurnTrace | None = None

    @property
    def turn_count(self) -> int:
        """Questions of this task."""
        return self._maker.count

    @property
    def computed_tokens(self) -> int:
        """What the backbone computed for this task."""
        return self._maker.computed_tokens

    def begin(
        self, instruction: str, now_ns: int, recall: Recall | None = None,
        most_turns: int | None = None, may_move: bool = False,
    ) -> None:
        """Start with a look at things as they are from now on.

        Args:
          instruction: what the person said.
          now_ns: the time.
          recall: gives what the question rests on; None for a plain question.
          most_turns: of the task, beyond which nothing is asked again; the setting where None.
          may_move: whether an image of a moving arm will do.
        """
        self.cancel()
        self._may_move = may_move
        self._instruction, self._began_ns = instruction, now_ns
        self._recall, self._most_turns = recall, self.most_turns(most_turns)
        self._retry_s, self.trouble = self._limits.retry_first_s, ''
        self._look(now_ns)

    def most_turns(self, wanted: int | None) -> int:
        """Return how many questions a task may have; the setting where None is wanted."""
        return wanted or self._limits.max_turns

    def reset(self) -> None:
        """Begin to count for another task."""
        self._maker.reset()

    def cancel(self) -> None:
        """Withdraw the question."""
        if self._pending is not None:
            self._pending.cancel()
        self._pending, self.waiting, self._asked_ns = None, Waiting.NOTHING, None

    def image_wait_ns(self, now_ns: int) -> int | None:
        """Return how long an image has been missing [ns], None if none is needed."""
        return now_ns - self._looking_since_ns if self.waiting is Waiting.IMAGE else None

    def turn_age_ns(self, now_ns: int) -> int | None:
        """Return how long the answer has been missing [ns], None if there is no turn."""
        return None if self._asked_ns is None else now_ns - self._asked_ns

    def advance(
        self, now_ns: int, rest_since_ns: int | None, joints: JointState
    ) -> TurnAnswer | GaveUp | None:
        """Do what is due now. Never waits.

        Args:
          now_ns: the time.
          rest_since_ns: since when the arm is at rest; None while it moves.
          joints: the newest.
        """
        if self.waiting is Waiting.RETRY and now_ns >= self._retry_at_ns:
            self._look(now_ns)
        if self.waiting is Waiting.IMAGE:
            self._take_frames(now_ns, rest_since_ns)
        if self.waiting is Waiting.BACKBONE:
            self._ask_if_ready(now_ns, joints)
        result = self._polled(now_ns) if self.waiting is Waiting.ANSWER else None
        return result if result is not None else self._given_up(now_ns)

    def _look(self, now_ns: int) -> None:
        """Want images that are taken from now on."""
        self._looking_since_ns, self.waiting = now_ns, Waiting.IMAGE

    def _take_frames(self, now_ns: int, rest_since_ns: int | None) -> None:
        """Take the images if there are new ones, of a resting arm where it must rest."""
        if rest_since_ns is None and not self._may_move:
            self._looking_since_ns = now_ns
            return
        after_ns = max(self._looking_since_ns - 1, rest_since_ns or 0)
        frames = self._intake.fresh_frames(after_ns)
        if frames is not None:
            self.frames, self.waiting = frames, Waiting.BACKBONE

    def _ask_if_ready(self, now_ns: int, joints: JointState) -> None:
        """Send the turn if there is a session; look again if the image became old."""
        state = self._planner.state()
        oldest_ns = min(frame.stamp_ns for frame in self.frames.values())
        if now_ns - oldest_ns > self._stale_ns:
            self._look(now_ns)
        elif (grant := state.grant_for(self._instruction)) is not None:
            self._submit(grant, joints)
        else:
            self.trouble = state.reason or f'link is {state.link.value}'

    def _submit(self, grant: Grant, joints: JointState) -> None:
        """Encode and send."""
        oldest = min(self.frames.values(), key=lambda frame: frame.stamp_ns)
        started_ns = self._clock.now_ns()
        memory = None if self._recall is None else self._recall(joints)
        turn = self._maker.make(self._instruction, self.frames, joints, grant, memory)
        trace = TurnTrace(turn.turn_id, oldest.stamp_ns, oldest.arrived_ns, started_ns)
        trace.instruction, trace.image_quality = self._instruction, turn.image_quality
        trace.sent_ns = self._asked_ns = self._clock.now_ns()
        try:
            self._pending = self._planner.submit(turn)
        except PlannerUnavailable as error:
            self.trouble = str(error)
            self._asked_ns = None
            return
        self.trace, self.waiting, self._turn_id = trace, Waiting.ANSWER, turn.turn_id
        about = {} if memory is None else {'trial': memory.trial, 'purpose': memory.purpose.value}
        self._log(
            'turn', turn_id=turn.turn_id, instruction=self._instruction,
            observation_epoch=turn.observation_epoch, image_quality=turn.image_quality,
            session=grant.session_id, **about,
        )

    def _polled(self, now_ns: int) -> TurnAnswer | GaveUp | None:
        """Look for the answer; one to another turn is none."""
        result = self._pending.poll() if self._pending is not None else None
        if result is None or result.turn_id != self._turn_id:
            result = self._overdue(now_ns)
        if result is None:
            return None
        self._pending, self._asked_ns, self.waiting = None, None, Waiting.NOTHING
        if isinstance(result, TurnAnswer):
            self._stamp(result)
            if result.choice is not None:
                self._log('choice', turn_id=result.turn_id, source=result.choice.source.value,
                          reason=result.choice.reason)
            return result
        return self._after_failure(result, now_ns)

    def _overdue(self, now_ns: int) -> TurnFailure | None:
        """Withdraw a turn whose answer would be of no use any more."""
        limit_s = self._limits.turn_deadline_s
        if self._asked_ns is None or now_ns - self._asked_ns <= to_ns(limit_s + _GRACE_S):
            return None
        if self._pending is not None:
            self._pending.cancel()
        return TurnFailure(
            self._turn_id, 'deadline', f'no answer within {limit_s:g} s', Remedy.RETRY
        )

    def _stamp(self, answer: TurnAnswer) -> None:
        """Complete account and trace by what the answer says."""
        self._maker.computed_tokens += answer.computed_token_count
        if self.trace is not None:
            self.trace.sent_ns, self.trace.received_ns = answer.sent_ns, answer.received_ns
            self.trace.backbone_ns = answer.backbone_ns
            self.trace.backbone_arrived_ns = answer.backbone_arrived_ns
            self.trace.outcome = answer.plan.outcome.value

    def _after_failure(self, failure: TurnFailure, now_ns: int) -> GaveUp | None:
        """Wait and ask again, or give up where that cannot help."""
        self.trouble = failure.message
        self._log('turn_failed', turn_id=failure.turn_id, reason=failure.reason,
                  message=failure.message)
        if failure.remedy is Remedy.FIX:
            return GaveUp(failure.message, cause=failure.reason)
        self.waiting = Waiting.RETRY
        self._retry_at_ns = now_ns + to_ns(self._retry_s)
        self._retry_s = min(self._limits.retry_most_s, max(2 * self._retry_s, 0.01))
        return None

    def _given_up(self, now_ns: int) -> GaveUp | None:
        """Give up after too many turns or too long a wait."""
        limits = self._limits
        if self.waiting is Waiting.IMAGE:
            waited_ns = now_ns - self._looking_since_ns
            if waited_ns > to_ns(limits.look_wait_s):
                reason = f'no camera image for {to_s(waited_ns):.1f} s'
                return GaveUp(reason, TrialEnd.NO_IMAGE)
        if self.waiting in (Waiting.BACKBONE, Waiting.RETRY):
            if self.turn_count >= self._most_turns:
                reason = f'no plan after {self.turn_count} turns: {self.trouble}'
                return GaveUp(reason, TrialEnd.TURN_LIMIT)
            if now_ns - self._began_ns > to_ns(limits.planner_wait_s):
                return GaveUp(f'no answer for {limits.planner_wait_s:g} s: {self.trouble}')
        return None

# SPDX-License-Identifier: Apache-2.0
"""Executes steps one by one: keeps the buffer filled, says when a step is over or has failed.

Knows the decoder through ``ChunkMaker`` and success through ``SuccessJudge``; nothing of the
backbone. ``advance`` returns at once and is called as often as the owner likes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from onboard_decoder.agent.success import SuccessJudge
from onboard_decoder.chunk_maker import ChunkMaker, Made, TickStamp
from onboard_decoder.clock import to_ns, to_s
from onboard_decoder.config import RobotSettings
from onboard_decoder.errors import ChunkRefused
from onboard_decoder.joint_limiter import Motion
from onboard_decoder.observation_intake import JointState
from onboard_decoder.plan import PlanStep, Skill, SuccessCondition


@dataclass(frozen=True, slots=True)
class Body:
    """What the body feels now; ``may_go_on`` is False while no new step may start."""

    now_ns: int
    joints: JointState
    motion: Motion
    tick: TickStamp
    may_go_on: bool = True


class Progress(Enum):
    """What ``advance`` found."""

    RUNNING = 'running'
    STEP_DONE = 'step_done'
    ALL_DONE = 'all_done'
    FAILED = 'failed'


class StepRunner:
    """Runs one list of steps at a time."""

    def __init__(self, maker: ChunkMaker, judge: SuccessJudge, settings: RobotSettings) -> None:
        self._maker, self._judge = maker, judge
        self._every = settings.chunks.decode_every_ticks
        self._limits, self._success = settings.limits, settings.success
        self._steps: tuple[PlanStep, ...] = ()
        self._latent: tuple[float, ...] = ()
        self._index = 0
        self._fresh = True
        self._started_ns = 0
        self._made: Made | None = None
        self._made_tick = 0
        self._true_since_ns: int | None = None
        self._empty_since_ns: int | None = None
        self.is_carrying = False
        self.failure = ''
        self.has_timed_out = False
        self._waits_at_first = True

    @property
    def step(self) -> PlanStep | None:
        """The step under way, None when there is none."""
        return self._steps[self._index] if self._index < len(self._steps) else None

    @property
    def index(self) -> int:
        """Its index."""
        return self._index

    @property
    def count(self) -> int:
        """Number of steps of this run."""
        return len(self._steps)

    @property
    def is_waiting(self) -> bool:
        """True between two steps, while the next may not start."""
        return self.step is not None and self._fresh

    @property
    def newest(self) -> Made | None:
        """The chunk that was made last in this run."""
        return self._made

    def left_s(self, now_ns: int) -> float | None:
        """Return what the decoder says is left of the last step [s]; None before that step."""
        is_last = self._index == len(self._steps) - 1 and not self._fresh
        if not is_last or self._made is None:
            return None
        return max(0.0, self._made.remaining_s - to_s(now_ns - self._made.started_ns))

    def start(
        self, steps: Sequence[PlanStep], latent: Sequence[float] = (), is_retreat: bool = False
    ) -> None:
        """Begin with the first step at the next ``advance``, or once a step may be begun.

        Args:
          steps: what to do.
          latent: from the backbone.
          is_retreat: the first step leads out of harm's way and waits for nothing.
        """
        self._waits_at_first = not is_retreat
        self._steps, self._latent = tuple(steps), tuple(latent)
        self._index, self._fresh, self._made, self.failure = 0, True, None, ''
        self.has_timed_out, self._interruption = False, ''

    def interrupt(self, reason: str) -> None:
        """Let the step that is run fail at the next ``advance``."""
        self._interruption = reason

    def stop(self) -> None:
        """Forget the steps."""
        self._steps = ()

    def advance(self, body: Body) -> Progress:
        """Do what is due now. Never waits."""
        step = self.step
        if step is None:
            return Progress.ALL_DONE
        if self._interruption:
            return self._failed(self._interruption)
        if self._fresh and not self._begin(step, body):
            return Progress.RUNNING
        try:
            self._decode_if_due(step, body)
        except ChunkRefused as error:
            return self._failed(str(error))
        return self._judged(step, body)

    def _begin(self, step: PlanStep, body: Body) -> bool:
        """Start a step, unless it must wait."""
        if not body.may_go_on and (self._index > 0 or self._waits_at_first):
            return False
        self._fresh, self._started_ns = False, body.now_ns
        self._true_since_ns = self._empty_since_ns = None
        self._made_tick = body.tick.number - self._every
        if step.gripper_opening > 0.5:
            self.is_carrying = False
        return True

    def _decode_if_due(self, step: PlanStep, body: Body) -> None:
        """Make a chunk every so many ticks."""
        if body.tick.number - self._made_tick < self._every:
            return
        self._made_tick = body.tick.number
        self._made = self._maker.make(
            step, self._latent, body.joints, body.motion, body.tick
        )

    def _judged(self, step: PlanStep, body: Body) -> Progress:
        """Say how the step stands."""
        if self._is_over(step, body):
            if step.success is SuccessCondition.HOLDING:
                self.is_carrying = True
            self._index, self._fresh = self._index + 1, True
            return Progress.ALL_DONE if self.step is None else Progress.STEP_DONE
        if self._is_empty(step, body):
            self.is_carrying = False
            return self._failed('the gripper holds nothing')
        if body.now_ns - self._started_ns > to_ns(self._limits.step_timeout_s):
            self.has_timed_out = True
            return self._failed(f'not done after {self._limits.step_timeout_s:g} s')
        return Progress.RUNNING

    def _is_over(self, step: PlanStep, body: Body) -> bool:
        """True if the condition has held for a while at rest; longer if the decoder disagrees."""
        holds = self._judge.is_at_rest(body.joints, body.motion) and self._judge.has_succeeded(
            step, body.joints.positions
        )
        if not holds:
            self._true_since_ns = None
            return False
        if self._true_since_ns is None:
            self._true_since_ns = body.now_ns
        thinks_so = self._made is not None and self._made.remaining_s <= self._success.remaining_s
        wait_s = self._success.settle_s if thinks_so else self._success.doubt_s
        return body.now_ns - self._true_since_ns >= to_ns(wait_s)

    def _is_empty(self, step: PlanStep, body: Body) -> bool:
        """True if fingers that should hold something have been closed for a while."""
        grasping = step.skill is Skill.GRASP and self._judge.is_at_rest(body.joints, body.motion)
        expects = (self.is_carrying or grasping) and step.gripper_opening < 0.5
        if not (expects and self._judge.is_closed(body.joints.positions)):
            self._empty_since_ns = None
            return False
        if self._empty_since_ns is None:
            self._empty_since_ns = body.now_ns
        return body.now_ns - self._empty_since_ns >= to_ns(self._success.lost_s)

    def _failed(self, reason: str) -> Progress:
        """Remember why."""
        step = self.step
        self.failure = f'{step.skill.value if step else "step"} {self._index}: {reason}'
        return Progress.FAILED

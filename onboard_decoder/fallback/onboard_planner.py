# SPDX-License-Identifier: Apache-2.0
"""The small planner as a ``PlannerPort``: turns are taken at once and computed in a thread.

Never needs a network. A turn that it leaves to the backbone, or cannot answer in time, fails with
the reason. Knows turns and their deadlines; chooses nothing.
"""

from __future__ import annotations

from dataclasses import replace
import logging
import queue
import threading

import cv2
import numpy as np
from onboard_decoder.clock import Clock, to_ns
from onboard_decoder.config import RobotSettings
from onboard_decoder.errors import ImageRefused, PlannerUnavailable
from onboard_decoder.fallback.heard_request import Request, TooHard
from onboard_decoder.fallback.onboard_model import OnboardModel
from onboard_decoder.fallback.simple_calls import next_call
from onboard_decoder.fallback.simple_planner import SimplePlanner
from onboard_decoder.image_codec import decode_compressed, Image
from onboard_decoder.manifest import Manifest
from onboard_decoder.observation_intake import JointState
from onboard_decoder.plan import ActionPlan, Certificate, Exactness
from onboard_decoder.planner_port import (
    Choice,
    Grant,
    Link,
    PlannerState,
    Remedy,
    Source,
    TurnAnswer,
    TurnFailure,
    TurnRequest,
)
from protos.protocol import MAX_INSTRUCTION_CHARS

log = logging.getLogger(__name__)

TOO_HARD = 'too_hard'
_MOST_HEARD = 100


class OnboardPlanner:
    """Answers turns on board; ``grant`` is under what."""

    def __init__(
        self, manifest: Manifest, model: OnboardModel, clock: Clock, settings: RobotSettings,
        news: threading.Event | None = None,
    ) -> None:
        """Start the thread.

        Args:
          manifest: the robot.
          model: its small planner.
          clock: of the turns' deadlines.
          settings: of the robot; what is less sure than they want is too hard.
          news: set when there is an answer.
        """
        self._camera, self._side = manifest.cameras[0].name, model.about.image_px
        self._planner, self._clock = SimplePlanner(manifest, model, settings), clock
        self._least, self.news = settings.offload.min_confidence, news or threading.Event()
        self.grant = Grant(
            'onboard', 0, False, f'onboard:{model.about.digest}', self._side, self._side, 0, 0,
            MAX_INSTRUCTION_CHARS)
        self._heard: dict[str, Request | TooHard] = {}
        self._jobs: queue.SimpleQueue[OnboardTurn | str | None] = queue.SimpleQueue()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name='onboard-planner', daemon=True)
        self._thread.start()

    def state(self) -> PlannerState:
        """Return that turns can be asked."""
        if self._is_closed:
            return PlannerState(Link.CLOSED, 'closed by this robot')
        choice = Choice(Source.ONBOARD, 'there is no other')
        return PlannerState(Link.READY, 'plans on board', self.grant, choice=choice)

    def submit(self, turn: TurnRequest) -> OnboardTurn:
        """Ask. Never waits. Raises PlannerUnavailable after ``close``."""
        if self._is_closed:
            raise PlannerUnavailable('closed by this robot')
        asked = OnboardTurn(turn, self._clock)
        self._jobs.put(asked)
        return asked

    def listen(self, instruction: str) -> None:
        """Find out whether an instruction is too hard; ``heard`` tells it later. Never waits."""
        if instruction not in self._heard:
            self._jobs.put(instruction)

    def heard(self, instruction: str) -> Request | TooHard | None:
        """Return what an instruction asks for, None where that is not known yet."""
        return self._heard.get(instruction)

    def close(self) -> None:
        """End the thread; idempotent."""
        self._is_closed = True
        self._jobs.put(None)
        self._thread.join(timeout=2.0)

    def _work(self) -> None:
        """Do one job after the other until closed."""
        while (job := self._jobs.get()) is not None:
            if isinstance(job, str):
                self._listened(job)
            elif job.is_wanted:
                job.settle(self._answered(job))
                self.news.set()

    def _listened(self, instruction: str) -> None:
        """Hear an instruction; where that fails its turns will say so, not the thread's end."""
        try:
            self._hear(instruction)
        except Exception:
            log.exception('the onboard planner could not hear %r', instruction)

    def _hear(self, instruction: str) -> Request | TooHard:
        if instruction not in self._heard:
            if len(self._heard) >= _MOST_HEARD:
                self._heard.clear()
            self._heard[instruction] = self._planner.request(instruction)
        return self._heard[instruction]

    def _answered(self, job: OnboardTurn) -> TurnAnswer | TurnFailure:
        """Plan one turn; what goes wrong is a failure of this turn, never the thread's end."""
        turn, began_ns = job.turn, self._clock.now_ns()
        try:
            plan = self._plan(turn)
        except (ImageRefused, ValueError) as error:
            return TurnFailure(turn.turn_id, 'bad_turn', str(error), Remedy.RETRY)
        except Exception:
            log.exception('the onboard planner failed at %s', turn.turn_id)
            return TurnFailure(
                turn.turn_id, 'failed', 'the onboard planner failed; see the log', Remedy.RETRY)
        if isinstance(plan, TooHard):
            remedy = Remedy.RETRY if plan.may_pass else Remedy.FIX
            message = f'too hard for the onboard planner: {plan.reason}'
            return TurnFailure(turn.turn_id, TOO_HARD, message, remedy)
        now_ns = self._clock.now_ns()
        return TurnAnswer(
            turn.turn_id, plan, job.sent_ns, now_ns, {'vision': now_ns - began_ns},
            choice=Choice(Source.ONBOARD, 'there is no other'))

    def _plan(self, turn: TurnRequest) -> ActionPlan | TooHard:
        request = self._hear(turn.instruction)
        if isinstance(request, TooHard):
            return request
        if turn.revises:
            return TooHard('a look while moving needs the backbone', may_pass=True)
        positions = np.array(turn.joint_positions, dtype=np.float64)
        joints = JointState(0, positions, 0 * positions)
        plan = self._planner.plan(turn.instruction, self._image(turn), joints)
        if isinstance(plan, ActionPlan) and plan.confidence < self._least:
            return TooHard(f'only {plan.confidence:.2f} sure of it', may_pass=True)
        if isinstance(plan, ActionPlan) and turn.memory is not None:
            plan = next_call(plan, request, turn.memory)
        if isinstance(plan, TooHard):
            return plan
        epoch = turn.observation_epoch
        return replace(plan, certificate=Certificate(epoch, epoch, Exactness.NUMERIC))

    def _image(self, turn: TurnRequest) -> Image:
        """Return the first camera's image at the size that the model takes."""
        if self._camera not in turn.images:
            raise ValueError(f'no image of camera {self._camera!r}')
        image = decode_compressed(turn.images[self._camera])
        if image.shape[:2] != (self._side, self._side):
            size = (self._side, self._side)
            image = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
        return image


class OnboardTurn:
    """A turn that was asked; see ``planner_port.PendingTurn``."""

    def __init__(self, turn: TurnRequest, clock: Clock) -> None:
        self.turn, self._clock = turn, clock
        self.sent_ns = clock.now_ns()
        self._is_cancelled = False
        self._result: TurnAnswer | TurnFailure | None = None

    @property
    def is_wanted(self) -> bool:
        """True while an answer is of use."""
        return not self._is_cancelled and not self._is_late()

    def settle(self, result: TurnAnswer | TurnFailure) -> None:
        """Set the result, unless it comes too late."""
        if self.is_wanted and self._result is None:
            self._result = result

    def poll(self) -> TurnAnswer | TurnFailure | None:
        """Return the result, or None while there is none; a turn past its deadline fails."""
        if self._result is None and self._is_late():
            self._result = TurnFailure(
                self.turn.turn_id, 'deadline_passed',
                f'the onboard planner took longer than {self.turn.deadline_s:g} s', Remedy.RETRY)
        return self._result

    def cancel(self) -> None:
        """Withdraw the turn; its result is dropped."""
        self._is_cancelled = True

    def _is_late(self) -> bool:
        return self._clock.now_ns() - self.sent_ns > to_ns(self.turn.deadline_s)

# SPDX-License-Identifier: Apache-2.0
"""The whole robot below the node: observations in, commands out, a task in between.

Three callers: whoever has observations calls ``observe_*``; the command loop calls ``tick`` once a
period; somebody calls ``think`` as often as they like. Nothing here waits, so a node does it with
threads and real time, an evaluation in lockstep with simulated time: observe, think, tick.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
import threading

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.agent.agent import AgentNeeds, make_agent
from onboard_decoder.agent.lesson_store import LessonStore
from onboard_decoder.agent.step_runner import Body
from onboard_decoder.agent.success import SuccessJudge
from onboard_decoder.agent.task_result import TaskResult
from onboard_decoder.agent.transcript import Event, EventSink, RecentEvents
from onboard_decoder.agent.turn_asker import Waiting
from onboard_decoder.chunk_maker import ChunkMaker
from onboard_decoder.clock import Clock, to_s
from onboard_decoder.config import RobotSettings
from onboard_decoder.decoder_port import DecoderPort
from onboard_decoder.errors import OnboardError, StopPressed
from onboard_decoder.fallback.guard import Guard, Watched
from onboard_decoder.fallback.watchdog import Fault, Watchdog
from onboard_decoder.image_codec import Image
from onboard_decoder.inbox import Inbox, Kind
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.latency_budget import TurnTrace
from onboard_decoder.manifest import Manifest
from onboard_decoder.observation_intake import ObservationIntake
from onboard_decoder.planner_port import PlannerPort
from onboard_decoder.self_report import SelfReport
from onboard_decoder.servo import Command, Publish, Servo
from onboard_decoder.status import RobotStatus
from onboard_decoder.trace_collector import TraceCollector
from protos.protocol import MAX_INSTRUCTION_CHARS

Array = NDArray[np.float64]


class Robot:
    """One robot with its agent."""

    def __init__(
        self,
        manifest: Manifest,
        planner: PlannerPort,
        decoder: DecoderPort,
        clock: Clock,
        settings: RobotSettings | None = None,
        publish: Publish | None = None,
        sinks: Sequence[EventSink] = (),
        news: threading.Event | None = None,
        lessons: LessonStore | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        """Wire everything; commands nothing before ``activate``.

        Args:
          manifest: the robot.
          planner: the backbone.
          decoder: steps to joint targets.
          clock: all stamps and deadlines are on it.
          settings: numbers of the behaviour; the defaults where None.
          publish: hands a command to the arm; called inside ``tick``.
          sinks: take the agent's events, for example a ``Transcript``.
          news: set when ``think`` has something to do; the planner may share it.
          lessons: what the agent learned before; kept in memory only where None.
          say: publishes the agent's question to a person; called inside ``think``.
        """
        self.manifest, self.settings = manifest, settings or RobotSettings()
        self._planner, self._clock = planner, clock
        self._recent = RecentEvents()
        self._sinks = (self._recent, *sinks)
        watchdog = self.settings.watchdog
        kinematics = ForwardKinematics(manifest)
        self.intake = ObservationIntake(manifest, clock, watchdog.range_tolerance)
        self._traces = TraceCollector(manifest)
        dog = Watchdog(watchdog)
        self._servo = Servo(
            manifest, kinematics, self.intake, dog, self._traces, clock,
            self.settings.chunks, publish or (lambda command: None),
        )
        maker = ChunkMaker(
            decoder, self._servo.buffer, clock, manifest, self.settings.chunks
        )
        self._judge = SuccessJudge(manifest, kinematics, self.settings.success)
        made = make_agent(
            AgentNeeds(
                manifest, kinematics, self.intake, planner, clock, maker, self._judge,
                self._traces, self._log, lessons or LessonStore(), say or (lambda text: None),
            ),
            self.settings,
        )
        self._task, self._asker, self._runner = made.agent, made.asker, made.runner
        self._guard = Guard(
            Watched(manifest, kinematics, self.intake, planner, self._servo, maker, made),
            watchdog, dog, self._log,
        )
        self._report = SelfReport(
            self.intake, planner, self._servo, maker, made, self._guard
        )
        self._inbox = Inbox()
        self._rest_since_ns: int | None = None
        self._moved_count = 0
        self.notice = ''
        self.news = news or threading.Event()

    def observe_joints(
        self,
        stamp_s: float,
        names: Sequence[str],
        positions: Sequence[float] | Array,
        velocities: Sequence[float] | Array | None = None,
    ) -> None:
        """Take measured joints, in any order. Raises JointsRefused and drops the message."""
        with self._noticed():
            self.intake.take_joints(stamp_s, names, positions, velocities)
        if self.intake.joints is not None:
            self._traces.felt(self.intake.joints)

    def observe_image(self, camera: str, stamp_s: float, rgb: Image) -> None:
        """Take an image (height, width, 3) RGB. Raises ImageRefused and drops the image."""
        with self._noticed():
            self.intake.take_image(camera, stamp_s, rgb)
        self.news.set()

    def ask(self, instruction: str) -> None:
        """Give a task; it replaces the one before and ends a stop.

        Raises:
          InstructionRefused: for what no backbone takes; StopPressed, which is one too.
        """
        grant = self._planner.state().grant
        limit = grant.max_instruction_chars if grant else 0
        with self._noticed():
            if self._servo.is_estopped:
                raise StopPressed(instruction)
            self._inbox.put(Kind.INSTRUCTION, instruction, limit or MAX_INSTRUCTION_CHARS)
        self.news.set()

    def answer(self, text: str) -> None:
        """Answer the robot's question; dropped if it asks nothing. Raises InstructionRefused."""
        with self._noticed():
            self._inbox.put(Kind.ANSWER, text, MAX_INSTRUCTION_CHARS)
        self.news.set()

    def stop(self) -> None:
        """Brake at once and end the task; the next instruction starts anew."""
        self._servo.brake()
        self._inbox.put(Kind.STOP)
        self.news.set()

    def estop(self, is_pressed: bool) -> None:
        """Brake at once while it is pressed, and end the task.

        Once released the arm still rests: the next instruction starts anew.
        """
        if is_pressed and not self._servo.is_estopped:
            self._servo.is_estopped = True
            self.stop()
        elif not is_pressed:
            self._servo.is_estopped = False

    def activate(self) -> None:
        """Command from now on; the first command is the measured pose. Idempotent."""
        if self.is_active:
            return  # to begin anew in full motion would be a jolt
        self._rest_since_ns = None
        self._runner.interrupt('nothing was commanded meanwhile')
        self._servo.activate()

    def deactivate(self) -> None:
        """Command nothing any more; stop first where the arm is to brake."""
        self._servo.deactivate()

    def tick(self) -> Command | None:
        """Command one period; None while inactive or before the first joints. Never waits."""
        return self._servo.tick()

    def think(self) -> None:
        """Do what is due: take instructions, look, ask, decode, judge. Never waits."""
        now_ns = self._clock.now_ns()
        self._read_inbox(now_ns)
        self._guard.check(now_ns)
        joints, motion, tick = self.intake.joints, self._servo.motion, self._servo.last_tick
        if joints is None or motion is None or tick is None:
            return
        if not self._judge.is_at_rest(joints, motion):
            self._rest_since_ns = None
        elif self._rest_since_ns is None:
            self._rest_since_ns = joints.stamp_ns
        body = Body(now_ns, joints, motion, tick, self._guard.may_begin_step)
        if self._servo.must_brake:
            self._task.expire(body)
            return
        if self._servo.moved_count > self._moved_count:
            self._moved_count = self._servo.moved_count
            self._log('moved')
            self._runner.interrupt('the arm was found elsewhere than it was led')
        self._task.think(body, self._rest_since_ns)
        self._servo.follow(self._task.is_moving, self._runner.is_waiting)

    def _read_inbox(self, now_ns: int) -> None:
        """Take what people said, in order."""
        while (message := self._inbox.oldest) is not None:
            if message.kind is Kind.STOP:
                self._servo.brake()
                self._task.stop('stopped', now_ns)
            elif message.kind is Kind.INSTRUCTION and self._servo.is_estopped:
                self.notice = str(StopPressed(message.text))
            elif message.kind is Kind.INSTRUCTION:
                self._guard.forgive()
                self._servo.drop()
                self._servo.is_stopped = False
                self._task.begin(message.text, now_ns)
            elif not self._task.answer(message.text):
                self.notice = f'answer {message.text!r} is dropped: nothing is asked'
            self._inbox.drop()

    @contextmanager
    def _noticed(self) -> Iterator[None]:
        """Remember what was refused; the caller gets the error too."""
        try:
            yield
        except OnboardError as error:
            self.notice = str(error)
            raise

    def _log(self, kind: str, **fields: object) -> None:
        """Give an event to every sink."""
        event = {'t_s': round(to_s(self._clock.now_ns()), 6), 'event': kind, **fields}
        for sink in self._sinks:
            try:
                sink.write(event)
            except OSError as error:  # a full disk is no reason to stop the arm
                self.notice = f'event {kind} was not recorded: {error}'

    @property
    def wants_image(self) -> bool:
        """True while the agent has use for a new image."""
        waits = self._inbox.is_waiting or self._asker.waiting is Waiting.IMAGE
        return waits or self._task.wants_image(self._clock.now_ns())

    @property
    def question(self) -> str:
        """What the agent asks a person, empty if nothing; see ``answer``."""
        return self._task.question

    @property
    def is_active(self) -> bool:
        """True between ``activate`` and ``deactivate``."""
        return self._servo.is_active

    @property
    def is_at_rest(self) -> bool:
        """True if the commanded joints stand still."""
        return self._servo.filter.is_at_rest

    @property
    def is_busy(self) -> bool:
        """True while there is a task."""
        return self._inbox.is_waiting or bool(self._task.instruction)

    @property
    def result(self) -> TaskResult | None:
        """How the last task ended; None while one is under way."""
        return None if self._inbox.is_waiting else self._task.result

    @property
    def events(self) -> list[Event]:
        """The agent's newest events, oldest first."""
        return self._recent.list()

    def take_traces(self) -> list[TurnTrace]:
        """Return the turns' traces that were finished since the last call."""
        return self._traces.take()

    def flush_traces(self) -> None:
        """Finish the trace under way, at the end of a run."""
        self._traces.flush()

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What the watchdog found last."""
        return self._guard.faults

    def status(self) -> RobotStatus:
        """Return what the robot says of itself now."""
        return self._report.status(
            self._clock.now_ns(), self.notice, self._inbox.is_waiting
        )

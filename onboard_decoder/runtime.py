# SPDX-License-Identifier: Apache-2.0
"""A robot in real time, without ROS: the command loop's thread, the agent's thread, the records.

The node above converts messages and calls this; whoever has another middleware can do the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import logging
import threading
import time

from onboard_decoder.clock import Clock
from onboard_decoder.command_loop import CommandLoop
from onboard_decoder.image_codec import Image
from onboard_decoder.latency_budget import TurnTrace
from onboard_decoder.realtime import Priority
from onboard_decoder.recorder import Recorder
from onboard_decoder.robot import Robot
from onboard_decoder.trace_file import TraceFile

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RuntimeSettings:
    """``think_period_s`` is the longest time between two thoughts; news wake the agent sooner."""

    think_period_s: float = 0.005
    loop_priority: int = 0
    brake_timeout_s: float = 2.0


class Runtime:
    """Runs one robot."""

    def __init__(
        self,
        robot: Robot,
        clock: Clock,
        settings: RuntimeSettings | None = None,
        trace_file: TraceFile | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.robot, self._settings = robot, settings or RuntimeSettings()
        self._trace_file, self._recorder = trace_file, recorder
        self.priority = Priority(self._settings.loop_priority)
        self._make_loop: Callable[[], CommandLoop] = lambda: CommandLoop(
            robot.tick, robot.manifest.control_period_s, clock, self.priority
        )
        self.loop = self._make_loop()
        self.last_trace: TurnTrace | None = None
        self.error_count = 0
        self._stopped = threading.Event()
        self._thinker = threading.Thread(target=self._think, name='agent', daemon=True)

    def observe_joints(
        self,
        stamp_s: float,
        names: Sequence[str],
        positions: Sequence[float],
        velocities: Sequence[float] | None = None,
    ) -> None:
        """Take measured joints, see ``Robot.observe_joints``."""
        self.robot.observe_joints(stamp_s, names, positions, velocities)
        if self._recorder is not None:
            self._recorder.joints(list(names), list(positions), list(velocities or ()))

    def observe_image(self, camera: str, stamp_s: float, rgb: Image) -> None:
        """Take an image, see ``Robot.observe_image``."""
        self.robot.observe_image(camera, stamp_s, rgb)
        if self._recorder is not None:
            self._recorder.image(camera, rgb)

    def start(self) -> None:
        """Start the agent's thread; it thinks, but nothing is commanded before ``activate``."""
        self._thinker.start()

    def activate(self) -> None:
        """Command from now on; idempotent."""
        if self.robot.is_active:
            return
        self.robot.activate()
        self.loop = self._make_loop()
        self.loop.start()

    def deactivate(self) -> None:
        """Brake, wait until the arm is at rest, then command nothing any more."""
        self.robot.stop()
        deadline_s = time.monotonic() + self._settings.brake_timeout_s
        while not self.robot.is_at_rest and time.monotonic() < deadline_s:
            time.sleep(0.01)
        self.robot.deactivate()
        self.loop.stop()

    def stop(self) -> None:
        """Brake, end both threads and close the files; idempotent."""
        if self.robot.is_active:
            self.deactivate()
        self._stopped.set()
        self.robot.news.set()
        if self._thinker.is_alive():
            self._thinker.join(2.0)
        self.robot.flush_traces()
        self._write_traces()
        if self._trace_file is not None:
            self._trace_file.close()
        if self._recorder is not None:
            self._recorder.close()

    def _think(self) -> None:
        """Think until stopped."""
        while not self._stopped.is_set():
            self.robot.news.wait(self._settings.think_period_s)
            self.robot.news.clear()
            try:
                self.robot.think()
                self._write_traces()
            except Exception:
                # The arm holds without the agent; people must see that it is broken.
                self.error_count += 1
                self.robot.stop()
                if self.error_count == 1:
                    log.exception('agent failed, the arm brakes; later failures are only counted')

    def _write_traces(self) -> None:
        """Keep the finished traces."""
        for trace in self.robot.take_traces():
            self.last_trace = trace
            if self._trace_file is not None:
                try:
                    self._trace_file.write(trace)
                except OSError as error:  # a full disk is no reason to stop the arm
                    self.robot.notice = f'trace {trace.turn_id} was not recorded: {error}'
            if self._recorder is not None:
                self._recorder.latency(trace.to_record())

# SPDX-License-Identifier: Apache-2.0
"""One world that runs in a gzserver: its newest poses, pictures and time, and commands to it.

Knows topics and waiting; nothing of what the poses mean. Every wait ends with an error if Gazebo
ends, and goes on for ever only while it is paused by somebody else, which ``is_paused`` says.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
import threading
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sim.errors import GazeboLost
from sim.gazebo.arm_sdf import MODEL
from sim.gazebo.joint_commands import JointCommands
from sim.gazebo.messages import gazebo
from sim.gazebo.process import GazeboProcess
from sim.gazebo.servos import GAINS
from sim.gazebo.transport import GazeboTransport
from sim.gazebo.world_sdf import CAMERA_LINK, STEP_S, WORLD

Image = NDArray[np.uint8]

FIRST_POSES_S = 20.0
FIRST_PICTURE_S = 20.0
LOOK_S = 0.02
NUDGE_S = 0.03
SILENT_S = 5.0   # without a new time although it is not paused: lost
# Pace of gzserver's loop in lockstep, in times real time, while steps are wanted and while none
# are. Each round sends a message, and only ten of them wait for a busy machine: a fast loop that
# stands still would push out the last poses, which gzserver's own camera waits for too.
STEPPING = 4.0
STANDING = 0.25
# Rounds of gzserver's loop a second in lockstep while steps are wanted and while none are. Each
# round sends a message, and only ten of them wait for a busy machine: a fast loop that stands
# still would push out the last poses, which its own camera waits for too.
STEPPING_HZ = 4000.0
STANDING_HZ = 250.0
_RGB8 = 3


@dataclass(frozen=True)
class Picture:
    """A picture (height, width, 3), RGB, and the simulated time at which it was taken [s]."""

    time_s: float
    rgb: Image


class RunningWorld:
    """A gzserver with a world in it; ``close`` it.

    Attributes:
        time_s: simulated time of the newest poses [s].
    """

    def __init__(
        self, sdf: str, folder: Path, names: Collection[str], lockstep: bool = False
    ) -> None:
        """Start and wait for the first poses.

        Args:
            sdf: the world.
            folder: for the world's file and logs.
            names: of models and 'model::link' whose poses are wanted.
            lockstep: time goes on in ``advance`` only; else as fast as the wall clock.

        Raises:
            GazeboUnavailable: it cannot be started here.
            GazeboLost: it starts but says nothing.
        """
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / 'tendon.world'
        path.write_text(sdf, encoding='utf-8')
        self._news = threading.Condition()
        self._names = frozenset(names)
        self._poses: dict[str, Any] = {}
        self.time_s = self._stepped_s = 0.0
        self._picture: Any = None
        self._statistics: Any = None
        self._lockstep = lockstep
        self._process = GazeboProcess(path, folder, is_paused=lockstep)
        self._commands: JointCommands | None = None
        self._transport: GazeboTransport | None = None
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    @property
    def processes(self) -> tuple[int, int]:
        """Process ids of gzserver and of its display."""
        return self._process.processes

    @property
    def is_paused(self) -> bool:
        """True if somebody paused it."""
        return bool(self._statistics is not None and self._statistics.paused)

    def poses(self) -> dict[str, NDArray[np.float64]]:
        """Return the newest poses (4, 4): of models in the world, 'model::link' in the model."""
        with self._news:
            newest = {name: self._poses[name] for name in self._names}
        return {name: _matrix(pose) for name, pose in newest.items()}

    def wait_for_picture(self) -> None:
        """Let time pass until there is a first picture. Raises GazeboLost."""
        deadline_s = time.monotonic() + FIRST_PICTURE_S
        while self._picture is None:
            if time.monotonic() > deadline_s:
                raise GazeboLost(f'no picture for {FIRST_PICTURE_S:g} s')
            self.advance(LOOK_S)

    @property
    def picture(self) -> Picture:
        """The newest picture; there is one after ``wait_for_picture``."""
        stamped = self._picture
        return Picture(_seconds(stamped.time), _image(stamped.image))

    def command(self, targets: dict[str, float]) -> None:
        """Send where joints shall be [rad] or [m]."""
        assert self._commands is not None
        self._commands.send(targets)

    def advance(self, seconds: float) -> None:
        """Let a simulated time pass [s]: by steps in lockstep, else by waiting for it.

        Raises:
            GazeboLost: it ended, or time stands still without a pause.
        """
        target_s = self.time_s + seconds
        if self._lockstep:
            self.pace(STEPPING)
            self._control(multi_step=max(1, round(seconds / STEP_S)))
        self._wait_for(target_s - STEP_S / 2)
        if self._lockstep:
            self.pace(STANDING)

    def _wait_for(self, target_s: float) -> None:
        moved_s = time.monotonic()
        while self.time_s < target_s:
            with self._news:
                is_news = self._news.wait(NUDGE_S)
            self._check()
            if is_news or (self.is_paused and not self._lockstep):
                moved_s = time.monotonic()
            elif time.monotonic() - moved_s > SILENT_S:
                raise GazeboLost(
                    f'time has stood still at {self.time_s:.3f} s for {SILENT_S:g} s')
            elif self._lockstep and self._stepped_s >= target_s:
                # All steps are done, but the last poses were pushed out: ask for newer ones.
                self.pace(STANDING)
                self._control(multi_step=1)

    def pause(self, is_paused: bool) -> None:
        """Stop or start the time, as a person would in Gazebo's window."""
        self._control(pause=is_paused)

    def pace(self, real_time_factor: float) -> None:
        """Set simulated seconds per second at most."""
        assert self._transport is not None
        self._transport.publish(f'/gazebo/{WORLD}/physics', gazebo['Physics'](
            real_time_update_rate=real_time_factor / STEP_S))

    def close(self) -> None:
        """End everything; idempotent."""
        if self._transport is not None:
            self._transport.close()
        if self._commands is not None:
            self._commands.close()
        self._process.stop()

    def _connect(self) -> None:
        self._transport = GazeboTransport(self._process.port)
        about = f'/gazebo/{WORLD}'
        self._transport.subscribe(f'{about}/pose/local/info', 'PosesStamped', self._take_poses)
        self._transport.subscribe(f'{about}/world_stats', 'WorldStatistics', self._take_statistics)
        self._transport.subscribe(
            f'{about}/{CAMERA_LINK}/image', 'ImageStamped', self._take_picture)
        self._transport.advertise(f'{about}/world_control', 'WorldControl')
        deadline_s = time.monotonic() + FIRST_POSES_S
        while not self._names <= self._poses.keys():
            self._check()
            if time.monotonic() > deadline_s:
                missing = ', '.join(sorted(self._names - self._poses.keys()))
                raise GazeboLost(f'no pose of {missing} for {FIRST_POSES_S:g} s')
            if self._lockstep:
                self._control(multi_step=1)
            time.sleep(NUDGE_S)
        # Told of its pace before the world is loaded, gzserver aborts.
        self._transport.advertise(f'{about}/physics', 'Physics')
        if self._lockstep:
            self.pace(STANDING)
        self._commands = JointCommands(MODEL, self._process.partition, GAINS)
        self._commands.wait_ready()

    def _control(self, **fields: object) -> None:
        assert self._transport is not None
        self._transport.publish(f'/gazebo/{WORLD}/world_control', gazebo['WorldControl'](**fields))

    def _check(self) -> None:
        if not self._process.is_running:
            raise GazeboLost('gzserver has ended')

    def _take_poses(self, message: Any) -> None:
        with self._news:
            self._stepped_s = _seconds(message.time)
            if message.pose:  # what did not move is left out; the arm always moves a little
                self._poses.update((pose.name, pose) for pose in message.pose)
                self.time_s = self._stepped_s
                self._news.notify_all()

    def _take_picture(self, message: Any) -> None:
        self._picture = message

    def _take_statistics(self, message: Any) -> None:
        self._statistics = message


def _seconds(stamp: Any) -> float:
    return float(stamp.sec + stamp.nsec / 1e9)


def _matrix(pose: Any) -> NDArray[np.float64]:
    """Turn a pose message into a matrix (4, 4)."""
    w, x, y, z = (getattr(pose.orientation, name) for name in 'wxyz')
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), pose.position.x],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x), pose.position.y],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y), pose.position.z],
        [0.0, 0.0, 0.0, 1.0],
    ])


def _image(message: Any) -> Image:
    if message.pixel_format != _RGB8:
        raise GazeboLost(f'pictures have pixel format {message.pixel_format}, not {_RGB8}')
    rows = np.frombuffer(message.data, np.uint8).reshape(message.height, message.step)
    rgb: Image = rows[:, :3 * message.width].reshape(message.height, message.width, 3).copy()
    return rgb

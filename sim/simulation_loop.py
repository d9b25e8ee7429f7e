# SPDX-License-Identifier: Apache-2.0
"""The simulated robot as a running thing: one arm, one task, one stream of commands, one thread.

`run` steps the physics in step with the wall clock and hands readings and pictures to callbacks;
every other method may be called from any thread. Knows no ROS; `sim.arm_node` wraps it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import threading
import time

from sim.arm_port import JointReading, SimulatedArm
from sim.camera import Image
from sim.mishaps import Mishap, prepare
from sim.pacer import Pacer
from sim.scene import SceneSpec
from sim.surroundings import Surroundings
from sim.tasks import Task
from sim.trajectory import check_values, TrajectoryFollower, TrajectoryPoint

LONGEST_CHUNK_S = 0.01
SHORTEST_MOVE_S, LONGEST_MOVE_S = 0.005, 0.04


def _unheard(_: str) -> None:
    """Let what the person says be lost."""


@dataclass(frozen=True)
class Outputs:
    """Who gets what; pictures are taken only while `wants_pictures` says so."""

    joints: Callable[[JointReading], None]
    picture: Callable[[Image], None]
    state: Callable[[dict[str, object]], None]
    wants_pictures: Callable[[], bool]
    answer: Callable[[str], None] = _unheard


@dataclass(frozen=True)
class Periods:
    """Simulated time between two outputs of a kind [s]."""

    joints_s: float = 0.01
    picture_s: float = 0.08
    state_s: float = 0.2


class SimulationLoop:
    """Runs one arm.

    Attributes:
        time_s: simulated time; unlike the arm's it goes on through resets.
        lost_s: how much the simulation has fallen behind the wall clock for good.
        picture_age_s: how old the newest picture was when it was handed over.
    """

    def __init__(self, arm: SimulatedArm, periods: Periods | None = None) -> None:
        self._arm = arm
        self._periods = periods or Periods()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._follower = TrajectoryFollower(arm.joint_names, list(arm.positions))
        self._task: Task | None = None
        self._around: Surroundings | None = None
        self._scene_seed = 0
        self._offset_s = 0.0
        self._first_success_s: float | None = None
        self._moved_s = 0.0
        self.time_s = 0.0
        self.lost_s = 0.0
        self._pictured_s = -1.0
        self.picture_age_s = 0.0

    def reset(
        self, scene: SceneSpec, task: Task, scene_seed: int, mishap: Mishap | None = None
    ) -> None:
        """Show a scene with its task; commands and questions from before are forgotten.

        Args:
            scene: as drawn; it is prepared for the mishap here.
            task: what is to be done in it.
            scene_seed: for the record.
            mishap: what goes wrong; None: nothing does.
        """
        mishap = mishap or Mishap('none', scene_seed, task.a, task.b)
        scene = prepare(scene, mishap)
        with self._lock:
            self._offset_s = self.time_s
            self._arm.reset(scene)
            self._around = Surroundings(self._arm, mishap)
            self._task, self._scene_seed = task, scene_seed
            self._first_success_s = None
            self._pictured_s = -1.0
            self._follower.hold(scene.joints)

    def follow(
        self, joint_names: Sequence[str], points: Sequence[TrajectoryPoint], delay_s: float = 0.0
    ) -> None:
        """Follow a trajectory that starts `delay_s` from now (negative: has begun already).

        Raises:
            CommandError: a trajectory that makes no sense; the one before stays.
        """
        with self._lock:
            now_s = self.time_s
            self._follower.replace(joint_names, points, now_s + delay_s, now_s)

    def move_to(self, values: Sequence[float]) -> None:
        """Go to these positions, in the order of the arm's joints, by the next such call.

        The time of that call is guessed from the last two, so a steady stream moves steadily.

        Raises:
            CommandError: wrong number of values, or not finite; the target before stays.
        """
        check_values(self._arm.joint_names, values)
        with self._lock:
            now_s = self.time_s
            period_s = min(max(now_s - self._moved_s, SHORTEST_MOVE_S), LONGEST_MOVE_S)
            self._moved_s = now_s
            point = TrajectoryPoint(period_s, values)
            self._follower.replace(self._arm.joint_names, [point], now_s, now_s)

    def ask(self, question: str) -> None:
        """Ask the person beside the table; what they say is an output."""
        with self._lock:
            if self._around is not None:
                self._around.ask(question)

    def state(self) -> dict[str, object]:
        """The simulator's truth about the task, for tests and demonstrations only."""
        with self._lock:
            task, arm, around = self._task, self._arm, self._around
            if task is None or around is None:
                return {}
            success = task.success(arm)
            if success and self._first_success_s is None:
                self._first_success_s = arm.time_s
            scene = arm.world.scene
            return {
                'truth_of': 'simulator, for tests and demonstrations only',
                'scene_seed': self._scene_seed,
                'kind': task.kind,
                'instruction': task.instruction,
                'success': success,
                'first_success_s': self._first_success_s,
                'time_s': round(arm.time_s, 3),
                'mishap': around.mishap.kind,
                'mishap_s': around.mischief.happened_s,
                'questions': len(around.person.questions),
                'a': scene.entities[task.a].name if task.a >= 0 else None,
                'b': scene.entities[task.b].name if task.b >= 0 else None,
                'entities': {
                    entity.name: [round(float(v), 4) for v in arm.world.centre(i)]
                    for i, entity in enumerate(scene.entities)
                },
            }

    def run(self, outputs: Outputs, real_time_factor: Callable[[], float]) -> None:
        """Run until `stop`, then free the display; outputs are called from this thread."""
        try:
            self._run(outputs, real_time_factor)
        finally:
            with self._lock:
                self._arm.close()

    def _run(self, outputs: Outputs, real_time_factor: Callable[[], float]) -> None:
        pacer = Pacer(sleep=self._stopping.wait)
        period_s, due = self._periods.joints_s, {'picture': 0.0, 'state': 0.0}
        while not self._stopping.is_set():
            self._step(period_s)
            outputs.joints(self._reading())
            answer = self._answer()
            if answer is not None:
                outputs.answer(answer)
            if self.time_s >= due['picture'] and outputs.wants_pictures():
                picture = self._new_picture()
                if picture is not None:
                    due['picture'] = _next(due['picture'], self.time_s, self._periods.picture_s)
                    outputs.picture(picture)
            if self.time_s >= due['state']:
                due['state'] = _next(due['state'], self.time_s, self._periods.state_s)
                outputs.state(self.state())
            factor = real_time_factor()
            if factor > 0:
                pacer.wait(period_s / factor)
                self.lost_s = pacer.lost_s
            else:
                time.sleep(0)  # let other threads in

    def stop(self) -> None:
        """Make `run` return soon."""
        self._stopping.set()

    def picture(self) -> Image:
        """Take a picture; always call from the same thread, the display belongs to it."""
        with self._lock:
            return self._arm.render()

    def _new_picture(self) -> Image | None:
        """Take a picture, or None while the newest is one that was handed over already."""
        picture = self.picture()
        if self._arm.picture_s <= self._pictured_s:
            return None
        self._pictured_s = self._arm.picture_s
        self.picture_age_s = max(0.0, self._arm.time_s - self._arm.picture_s)
        return picture

    def _reading(self) -> JointReading:
        with self._lock:
            reading = self._arm.read()
            return JointReading(self.time_s, reading.positions, reading.velocities)

    def _answer(self) -> str | None:
        with self._lock:
            return self._around.answer() if self._around is not None else None

    def _step(self, seconds: float) -> None:
        """Advance by short chunks, each towards where the joints shall be at its end."""
        count = max(1, round(seconds / LONGEST_CHUNK_S))
        chunk_s = seconds / count
        for _ in range(count):
            with self._lock:
                self._arm.command(self._follower.at(self.time_s + chunk_s), chunk_s)
                self._arm.advance(chunk_s)
                if self._around is not None:
                    self._around.step()
                self.time_s = self._offset_s + self._arm.time_s


def _next(due_s: float, now_s: float, period_s: float) -> float:
    """Give the next time of an output: on its grid, or one period from now if it fell behind."""
    return due_s + period_s if due_s + period_s > now_s else now_s + period_s

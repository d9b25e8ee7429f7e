# SPDX-License-Identifier: Apache-2.0
"""What is broken, one function each: break it in mid-motion, look, mend it, look again.

Each returns its figures; durations are in milliseconds unless named otherwise.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
import os
from pathlib import Path
import signal
import time
from typing import Any

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from std_srvs.srv import Trigger
from tendon.bench_faults.cable import Cable
from tendon.bench_faults.senses import Senses, Way
from tendon.bench_faults.witness import OF_THE_LINK, Witness
from tendon.conversation import result_of
from tendon.errors import PartNotReady
from tendon.local_robot import LocalRobot

BROKEN_S = 3.0  # how long a server stays frozen or unreachable
STEP_S = 15.0  # a step, and braking, are over by then
TASK_S = 120.0
POLL_S = 0.005


@dataclass
class Figures:
    """What one repetition showed.

    Attributes:
      detect_ms: from the fault to its entry in the robot's records.
      rest_ms: from the fault until the commanded arm stood still.
      back_ms: from the end of the fault to the end of its entry.
      missed: ticks of the command loop meanwhile.
      steps: steps that were finished while the fault was there.
      done: whether the task was done afterwards.
    """

    detect_ms: float
    rest_ms: float
    back_ms: float
    missed: int
    steps: int
    done: bool

    @property
    def line(self) -> str:
        """The same for people, in one line."""
        return (
            f'found after {self.detect_ms:.0f} ms, at rest after {self.rest_ms:.0f} ms, over '
            f'after {self.back_ms:.0f} ms, {self.missed} ticks missed, '
            f'task {"done" if self.done else "not done"}'
        )


@dataclass
class Bench:
    """A running system in which things can be broken."""

    robot: LocalRobot
    senses: Senses
    cable: Cable
    witness: Witness
    sentence: str = field(default='', init=False)

    def begin(self) -> None:
        """Put arm and things back, give the task, and wait until a later step is in motion."""
        talk = self.robot.talk
        # A robot that is switched on again begins where it finds its arm.
        self._call(ChangeState, 'onboard_node/change_state', _to(Transition.TRANSITION_DEACTIVATE))
        self._call(Trigger, 'sim_arm/reset', Trigger.Request())
        talk.wait(lambda: False, 0.5)
        self._call(ChangeState, 'onboard_node/change_state', _to(Transition.TRANSITION_ACTIVATE))
        self.sentence = str(talk.truth['instruction'])
        talk.say(self.sentence)
        self.wait_for_motion(1)

    def _call(self, kind: Any, name: str, request: Any) -> None:
        """Call a service and wait for its answer. Raises PartNotReady."""
        talk = self.robot.talk
        client = talk.node.create_client(kind, name)
        if not talk.wait(client.service_is_ready, STEP_S):
            raise PartNotReady(name, STEP_S)
        answered = client.call_async(request)
        if not talk.wait(answered.done, STEP_S) or not answered.result().success:
            raise PartNotReady(name, STEP_S)
        talk.node.destroy_client(client)

    def wait_for_motion(self, step: int) -> None:
        """Wait until the arm moves in this step or a later one, counted from 0."""
        def is_moving() -> bool:
            is_there = int(self.robot.talk.status.get('step_index', 0)) >= step
            return is_there and self.senses.is_moving()

        if not self.robot.talk.wait(is_moving, TASK_S, self.robot.stack.check):
            raise PartNotReady('motion', TASK_S)

    def rested_s(self, after_s: float) -> float:
        """Wait until the commanded arm stands still; return since when [s]."""
        self.robot.talk.wait(lambda: self.senses.rested_s(after_s) is not None, STEP_S)
        at_s = self.senses.rested_s(after_s)
        if at_s is None:
            raise PartNotReady('rest', STEP_S)
        return at_s

    def is_done(self) -> bool:
        """Wait for the end of the task; say whether it was done."""
        talk = self.robot.talk
        talk.wait(lambda: result_of(talk.status, self.sentence) is not None, TASK_S)
        result = result_of(talk.status, self.sentence)
        return result is not None and result['outcome'] == 'done'

    def measured(
        self, faults: tuple[str, ...], hurt: Callable[[], float], mend: Callable[[], float],
        lasts_s: float = BROKEN_S,
    ) -> Figures:
        """Break, look, mend, look.

        Args:
          faults: names of what the robot must find.
          hurt: breaks something and returns when [s].
          mend: mends it and returns when [s].
          lasts_s: how long it stays broken.
        """
        self.begin()
        missed = self.witness.missed_ticks()
        self.wait_for_motion(1)
        hurt_s = hurt()
        found_s = self.witness.fault_s(faults, hurt_s)
        rest_s = self.rested_s(hurt_s)
        self.robot.talk.wait(lambda: time.monotonic() > hurt_s + lasts_s, lasts_s + 1.0)
        steps = sum(event['event'] == 'step' for event in self.witness.events(found_s))
        mended_s = mend()
        over_s = self.witness.over_s(faults, mended_s)
        return Figures(
            1000 * (found_s - hurt_s), 1000 * (rest_s - hurt_s), 1000 * (over_s - mended_s),
            self.witness.missed_ticks() - missed, steps, self.is_done(),
        )


def killed(bench: Bench) -> Figures:
    """SIGKILL, and a restart; it is mended when the new process says that it serves."""
    def hurt() -> float:
        at_s = time.monotonic()  # the robot may know before the process is waited for
        bench.robot.stack.kill('backbone')
        return at_s

    def mend() -> float:
        log = bench.robot.stack.log('backbone')
        before = _times_served(log)
        with ThreadPoolExecutor(1) as starter:
            started = starter.submit(bench.robot.restart_backbone)
            while _times_served(log) == before and not started.done():
                time.sleep(POLL_S)
            served_s = time.monotonic()
            started.result()
        return served_s

    return bench.measured(OF_THE_LINK, hurt, mend)


def frozen(bench: Bench) -> Figures:
    """SIGSTOP, and SIGCONT some seconds later."""
    def send(number: signal.Signals) -> float:
        at_s = time.monotonic()
        os.killpg(bench.robot.stack.pid('backbone'), number)
        return at_s

    return bench.measured(
        OF_THE_LINK, lambda: send(signal.SIGSTOP), lambda: send(signal.SIGCONT))


def half_open(bench: Bench) -> Figures:
    """The cable is cut: no FIN, no reset, nothing passes."""
    def cut() -> float:
        at_s = time.monotonic()
        bench.cable.cut()
        return at_s

    def mend() -> float:
        at_s = time.monotonic()
        bench.cable.mend()
        return at_s

    return bench.measured(OF_THE_LINK, cut, mend)


def stale_joints(bench: Bench) -> Figures:
    """The driver says nothing any more."""
    return bench.measured(
        ('joints_stale',), lambda: _joints(bench, Way.SILENT), lambda: _joints(bench, Way.LIVE))


def frozen_joints(bench: Bench) -> Figures:
    """The driver hangs: new stamps, old values."""
    return bench.measured(
        ('joints_frozen',), lambda: _joints(bench, Way.FROZEN), lambda: _joints(bench, Way.LIVE))


def frozen_camera(bench: Bench) -> Figures:
    """The camera's driver hangs while the arm works in front of it."""
    def turn(way: Way) -> float:
        at_s = time.monotonic()
        bench.senses.images = way
        return at_s

    return bench.measured(
        ('image_frozen',), lambda: turn(Way.FROZEN), lambda: turn(Way.LIVE))


def emergency_stop(bench: Bench) -> Figures:
    """Pressed, then released; the arm must rest until it is told something new."""
    def press() -> float:
        at_s = time.monotonic()
        bench.senses.press(True)
        return at_s

    def release() -> float:
        at_s = time.monotonic()
        bench.senses.press(False)
        return at_s

    figures = bench.measured(('estop',), press, release)
    stays_at_rest = not figures.done and not bench.senses.is_moving()
    talk, now_s = bench.robot.talk, time.monotonic()
    talk.say(bench.sentence)

    def was_asked() -> bool:
        return any(event['event'] == 'answer' for event in bench.witness.events(now_s))

    # Done means here that it takes the next task: its arm may hide from it what that is about.
    figures.done = stays_at_rest and talk.wait(was_asked, TASK_S)
    return figures


def _to(transition: int) -> Any:
    return ChangeState.Request(transition=Transition(id=transition))


def _times_served(log: Path) -> int:
    return log.read_text(errors='replace').count('backbone serves at')


def _joints(bench: Bench, way: Way) -> float:
    at_s = time.monotonic()
    bench.senses.joints = way
    return at_s


SCENARIOS: dict[str, Callable[[Bench], Figures]] = {
    'server killed': killed,
    'server frozen': frozen,
    'half-open socket': half_open,
    'joints stale': stale_joints,
    'joints frozen': frozen_joints,
    'camera frozen': frozen_camera,
    'emergency stop': emergency_stop,
}
OF_THE_SERVER = ('server killed', 'server frozen', 'half-open socket')

# SPDX-License-Identifier: Apache-2.0
import json
import threading
import time
from types import SimpleNamespace

import numpy as np
from onboard_decoder.clock import MonotonicClock
from onboard_decoder.robot import Robot
from onboard_decoder.runtime import Runtime
from onboard_decoder.trace_file import TraceFile
import pytest

from tests.onboard_decoder.gantry import (
    DONE,
    gantry,
    GantryDecoder,
    IMAGE,
    MirrorArm,
    pick_plan,
    ScriptedPort,
)


class Live:
    """A robot in real time with a mirror arm, without ROS and without a network."""

    def __init__(self, folder, answers):
        self.clock, self.manifest = MonotonicClock(), gantry(folder)
        self.arm, self.decoder = MirrorArm(self.manifest), GantryDecoder(self.manifest)
        self.arm.thing_m, self.arm.thing_below_m = 0.02, 0.05
        self.robot = Robot(
            self.manifest, ScriptedPort(self.clock, answers, delay_s=0.1), self.decoder,
            self.clock, publish=lambda command: self.arm.command(command.positions),
        )
        self.trace_path = folder / 'latency.jsonl'
        self.runtime = Runtime(self.robot, self.clock, trace_file=TraceFile(self.trace_path))
        self._ended = threading.Event()
        self._sensors = threading.Thread(target=self._sense)
        self._sensors.start()
        self.runtime.start()

    def _sense(self):
        while not self._ended.wait(0.01):
            now_s = self.clock.now_ns() / 1e9
            self.runtime.observe_joints(now_s, self.arm.names, self.arm.positions)
            self.runtime.observe_image('front', now_s, IMAGE)

    def wait(self, condition):
        deadline_s = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline_s, self.robot.status().to_json()
            time.sleep(0.005)

    def close(self):
        self.runtime.stop()
        self._ended.set()
        self._sensors.join()


@pytest.fixture
def live(tmp_path):
    """A running robot that is asked to pick."""
    live = Live(tmp_path, [pick_plan(), DONE])
    yield live
    live.close()


def test_a_task_is_done_in_real_time_and_its_trace_is_on_disk(live):
    """Two threads, no middleware."""
    live.runtime.activate()
    live.robot.ask('pick it')
    live.wait(lambda: live.robot.result is not None)
    live.runtime.stop()

    record = json.loads(live.trace_path.read_text().splitlines()[0])
    inside = sum(v for name, v in record['stages_ns'].items() if name != 'motion_onset')
    assert live.robot.result.outcome.value == 'done'
    assert record['wall_ns'] == inside


def test_nothing_is_commanded_before_activation_and_first_the_measured_pose(live):
    """Wherever the arm is when it is switched on, it stays there."""
    live.arm.positions = live.manifest.home + np.array([0.1, -0.2, 0.05, -0.01])
    pose = live.arm.positions.copy()
    live.wait(lambda: live.robot.intake.joints is not None)
    time.sleep(0.05)
    assert not live.arm.commands

    live.runtime.activate()
    live.wait(lambda: len(live.arm.commands) > 5)

    assert np.allclose(live.arm.commands, pose, atol=1e-9)


def test_deactivation_brakes_first(live):
    """The last commands are at rest."""
    live.runtime.activate()
    live.robot.ask('pick it')
    live.wait(lambda: not live.robot.is_at_rest)

    live.runtime.deactivate()

    count = len(live.arm.commands)
    assert live.robot.is_at_rest
    time.sleep(0.1)
    assert len(live.arm.commands) == count


def test_the_end_of_the_program_brakes_first(live):
    """Whoever ends a robot in full motion does not leave the arm at full speed."""
    live.runtime.activate()
    live.robot.ask('pick it')
    live.wait(lambda: not live.robot.is_at_rest)

    live.runtime.stop()
    live.runtime.stop()

    assert live.robot.is_at_rest
    assert np.abs(live.arm.commands[-1] - live.arm.commands[-2]).max() < 1e-3


def test_an_agent_that_fails_brakes_the_arm_and_is_reported_once(live, caplog):
    """A fault in our own code leaves the loop running and the arm at rest."""
    live.runtime.activate()
    live.robot.ask('pick it')
    live.wait(lambda: not live.robot.is_at_rest)

    def broken(*args, **kwargs):
        raise RuntimeError('broken decoder')

    live.decoder.decode = broken
    live.wait(lambda: live.runtime.error_count > 0)
    live.wait(lambda: live.robot.is_at_rest)
    live.wait(lambda: live.robot.result is not None)

    assert live.robot.result.outcome.value == 'stopped'
    assert live.runtime.loop.statistics().error_count == 0
    assert len([record for record in caplog.records if record.exc_info]) == 1


def test_a_full_disk_stops_no_task(live):
    """What cannot be recorded is said in the status; the arm goes on."""
    def write(record):
        raise OSError(28, 'No space left on device')

    live.robot._sinks = (*live.robot._sinks, SimpleNamespace(write=write))
    live.runtime._trace_file.write = write
    live.runtime.activate()
    live.robot.ask('pick it')
    live.wait(lambda: live.robot.result is not None)

    assert live.robot.result.outcome.value == 'done'
    assert 'was not recorded: [Errno 28] No space left' in live.robot.notice
    assert live.runtime.error_count == 0

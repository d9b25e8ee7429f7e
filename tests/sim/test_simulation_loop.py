# SPDX-License-Identifier: Apache-2.0
import threading

import pytest
from sim.arm_pose import HOME, JOINTS
from sim.errors import CommandError
from sim.mujoco_arm import MujocoArm
from sim.simulation_loop import Outputs, Periods, SimulationLoop
from sim.tasks import draw_task
from sim.trajectory import TrajectoryPoint


class Record:
    """Keeps what a loop gives out, and stops it after some simulated time."""

    def __init__(self, loop, end_s, pictures=True):
        self.loop, self.end_s, self.watched = loop, end_s, pictures
        self.readings, self.pictures, self.states = [], [], []
        self.outputs = Outputs(
            self.take, self.pictures.append, self.states.append, lambda: self.watched
        )

    def take(self, reading):
        self.readings.append(reading)
        if reading.time_s >= self.end_s:
            self.loop.stop()


@pytest.fixture(scope='module')
def arm():
    return MujocoArm()


@pytest.fixture
def loop(arm):
    loop = SimulationLoop(arm, Periods(0.02, 0.1, 0.2))
    scene, task = draw_task(3, kind='put')
    loop.reset(scene, task, 3)
    return loop


def run(loop, end_s, pictures=True):
    record = Record(loop, end_s, pictures)
    loop.run(record.outputs, lambda: 0.0)
    return record


def test_outputs_come_at_their_rates(loop):
    """One second gives fifty readings, ten pictures and five states."""
    record = run(loop, 1.0)
    assert len(record.readings) == 50
    assert len(record.pictures) in (10, 11)
    assert len(record.states) in (5, 6)
    assert record.pictures[0].shape == (256, 256, 3)


def test_no_pictures_without_a_watcher(loop):
    """Nothing is rendered while nobody looks."""
    assert run(loop, 0.4, pictures=False).pictures == []


def test_a_trajectory_is_followed(loop):
    """The arm arrives at the point at its time, and other joints stay."""
    loop.follow(['elbow_joint'], [TrajectoryPoint(0.6, [1.8], [0.0])])
    readings = run(loop, 1.0, pictures=False).readings
    assert readings[31].positions['elbow_joint'] == pytest.approx(1.8, abs=3e-3)
    assert readings[-1].positions['wrist_1_joint'] == pytest.approx(HOME[3], abs=2e-3)


def test_a_stream_of_targets_moves_steadily(loop):
    """Targets at 50 Hz give a steady speed, not a stop and go."""
    record = Record(loop, 1.0, pictures=False)

    def take(reading):
        target = list(HOME)
        target[0] += 0.5 * reading.time_s
        loop.move_to(target)
        record.take(reading)

    outputs = Outputs(take, record.pictures.append, record.states.append, lambda: False)
    loop.run(outputs, lambda: 0.0)
    speeds = [r.velocities[JOINTS[0]] for r in record.readings[20:]]
    assert speeds == pytest.approx([0.5] * len(speeds), abs=0.05)


def test_reset_forgets_commands_and_keeps_time(loop):
    """After a reset the arm is at home and stays there, and time has not gone back."""
    loop.follow(JOINTS, [TrajectoryPoint(0.5, [0.0, -1.5, 1.5, -1.5, -1.5, 0.0, 0.0])])
    loop.reset(*draw_task(4, kind='pick'), 4)
    before_s = loop.time_s
    readings = run(loop, before_s + 0.3).readings
    assert readings[0].time_s > before_s
    assert list(readings[-1].positions.values()) == pytest.approx(HOME, abs=1e-3)


def test_state_tells_the_truth(loop):
    """The state names task, things and success, and says whose truth it is."""
    state = loop.state()
    assert state['kind'] == 'put' and state['success'] is False
    assert state['a'] in state['entities'] and state['b'] in state['entities']
    assert 'tests' in state['truth_of']


def test_bad_commands_are_refused(loop):
    """A refused command raises in the caller's thread and the loop goes on."""
    with pytest.raises(CommandError):
        loop.move_to([0.0])
    with pytest.raises(CommandError):
        loop.follow(['knee'], [TrajectoryPoint(1.0, [0.0])])
    assert run(loop, 0.1, pictures=False).readings


def test_stop_ends_a_paced_loop(loop):
    """Stopping from another thread ends a loop that follows the wall clock."""
    record = Record(loop, 1e9, pictures=False)
    thread = threading.Thread(target=loop.run, args=(record.outputs, lambda: 1.0))
    thread.start()
    loop.stop()
    thread.join(timeout=10.0)
    assert not thread.is_alive()

# SPDX-License-Identifier: Apache-2.0
import math
from pathlib import Path
import threading

import pytest
from sim.arm_geometry import ArmGeometry
from sim.arm_pose import HOME, JOINTS
from sim.errors import CommandError, SceneError
from sim.mujoco_arm import MujocoArm
from sim.person import YES
from sim.simulation_loop import Outputs, Periods, SimulationLoop
from sim.surroundings import ANY_FITS, named_mishap, NAMES
from sim.tasks import draw_task
from sim.trajectory import TrajectoryPoint

ROOT = Path(__file__).parents[2]
GEOMETRY = ArmGeometry.from_urdf(ROOT / 'sim' / 'assets' / 'tendon_arm.urdf')


class Record:
    """Keeps what a loop gives out, and stops it after some simulated time."""

    def __init__(self, loop, end_s, pictures=True):
        self.loop, self.end_s, self.watched = loop, end_s, pictures
        self.readings, self.pictures, self.states = [], [], []
        self.answers, self.answered_s = [], None
        self.outputs = Outputs(
            self.take, self.pictures.append, self.states.append, lambda: self.watched, self.hear
        )

    def hear(self, answer):
        self.answers.append(answer)
        self.answered_s = self.readings[-1].time_s

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


def reset_with(loop, name):
    """Show a scene with a mishap; return scene and task."""
    scene, task = draw_task(3, kind='put')
    loop.reset(scene, task, 3, named_mishap(name, 3, task))
    return scene, task


def test_a_mishap_happens_to_the_running_arm(loop):
    """A hand moves the thing once the fingers come near it, and the state says when."""
    scene, task = reset_with(loop, 'moved')
    thing = scene.entities[task.a]
    above = GEOMETRY.joints([thing.x, thing.y, 0.1, 0.0])
    assert (loop.state()['mishap'], loop.state()['mishap_s']) == ('moved', None)
    loop.follow(JOINTS[:6], [TrajectoryPoint(1.5, list(above))])
    run(loop, loop.time_s + 2.0, pictures=False)
    state = loop.state()
    assert 0.0 < state['mishap_s'] < 2.0
    moved = state['entities'][thing.name]
    assert max(abs(moved[0] - thing.x), abs(moved[1] - thing.y)) > 0.02


def test_a_person_answers_after_a_moment_and_clears_the_place(loop):
    """Asked about a taken place, they take away what stands there, and say so once."""
    reset_with(loop, 'blocked')
    before = loop.state()
    loop.ask('is it free?')
    record = run(loop, loop.time_s + 1.5, pictures=False)
    assert record.answers == [YES]
    assert 1.0 <= record.answered_s - before['time_s'] < 1.1
    assert loop.state()['questions'] == 1
    changed = [
        name for name, spot in loop.state()['entities'].items()
        if math.dist(spot, before['entities'][name]) > 0.05
    ]
    assert len(changed) == 1


def test_a_reset_forgets_the_question(loop):
    """Nobody answers what was asked in another scene."""
    reset_with(loop, 'blocked')
    loop.ask('is it free?')
    reset_with(loop, 'blocked')
    assert run(loop, loop.time_s + 1.5, pictures=False).answers == []


def test_a_mishap_that_cannot_be_is_refused_with_those_that_can():
    """The error names the value and what is allowed."""
    _, task = draw_task(3, kind='put')
    with pytest.raises(SceneError, match="'quake'; allowed: none, moved, dropped, blocked"):
        named_mishap('quake', 3, task)
    _, task = draw_task(3, kind='push')
    with pytest.raises(SceneError, match="'blocked' is 'push'; allowed: put, stack"):
        named_mishap('blocked', 3, task)
    assert named_mishap('moved', 3, task).kind == 'moved'


@pytest.mark.parametrize('name', NAMES)
def test_any_mishap_fits_the_task_that_is_taken_with_none_named(name):
    """A mishap without a kind of task always finds one."""
    _, task = draw_task(3, kind=ANY_FITS)
    assert named_mishap(name, 3, task).kind == name

# SPDX-License-Identifier: Apache-2.0
"""The arm in a real Gazebo does what the arm in MuJoCo does, and fails in words."""

import os
from pathlib import Path
import signal
import threading
import time

import numpy as np
import pytest
from sim.errors import CommandError, GazeboLost, SceneError, SimError
from sim.gazebo.gazebo_arm import GazeboArm
from sim.gazebo.running_world import SILENT_S
from sim.mujoco_arm import MujocoArm
from sim.tasks import draw_task

pytestmark = pytest.mark.slow

SCENE, TASK = draw_task(7, 'test', 'known', 'put')
HOME = np.array(SCENE.joints)


def hold(arm, joints, seconds):
    """Command a pose for a while."""
    for _ in range(round(seconds / 0.02)):
        arm.command(dict(zip(arm.joint_names, joints, strict=True)))
        arm.advance(0.02)


def test_it_starts_at_rest_in_the_pose_of_the_scene(arm):
    """The first reading is the scene's pose, and nothing falls over while time goes on."""
    np.testing.assert_allclose(arm.positions, HOME, atol=1e-3)
    hold(arm, HOME, 0.5)

    np.testing.assert_allclose(arm.positions, HOME, atol=2e-3)
    for index, entity in enumerate(SCENE.entities):
        place = arm.world.centre(index)
        np.testing.assert_allclose(place, (entity.x, entity.y, entity.z), atol=3e-3)
    assert not TASK.success(arm)


def test_it_goes_where_it_is_told(stepped_arm):
    """A slow move of all joints is followed closely and ends on the spot, fingers included."""
    goal = HOME + [0.3, 0.15, -0.2, 0.2, 0.2, -0.3, -0.02]
    worst = 0.0
    for share in np.linspace(0, 1, 75):
        joints = HOME + share * (goal - HOME)
        stepped_arm.command(dict(zip(stepped_arm.joint_names, joints, strict=True)))
        stepped_arm.advance(0.02)
        worst = max(worst, float(np.abs(stepped_arm.positions - joints).max()))
    hold(stepped_arm, goal, 0.6)

    assert worst < 0.05
    np.testing.assert_allclose(stepped_arm.positions, goal, atol=2e-3)
    assert np.abs(stepped_arm.velocities).max() < 0.02


def test_time_in_lockstep_goes_on_only_when_told(stepped_arm):
    """Between two steps nothing moves, however long it takes."""
    before_s = stepped_arm.time_s
    time.sleep(0.3)
    stepped_arm.advance(0.02)

    assert stepped_arm.time_s == pytest.approx(before_s + 0.02, abs=2e-3)


def test_the_picture_shows_what_the_other_simulator_shows(stepped_arm):
    """Things are in the same places in the same colours, in the calibrated camera's picture."""
    other = MujocoArm()
    other.reset(SCENE)
    ours, theirs = stepped_arm.render(), other.render()
    other.close()

    assert ours.shape == theirs.shape
    for index, entity in enumerate(SCENE.entities):
        x, y = (np.array(stepped_arm.world.label_points()[index]) * ours.shape[0]).astype(int)
        near, far = ours[y, x].astype(float), theirs[y, x].astype(float)
        assert np.linalg.norm(near - far) < 80, entity.name
    assert np.abs(ours.astype(float) - theirs).mean() < 25


def test_a_bad_command_is_refused(stepped_arm):
    """Unknown joints and values that are not finite never reach Gazebo."""
    with pytest.raises(CommandError, match='nose'):
        stepped_arm.command({'nose': 0.1})
    with pytest.raises(CommandError, match='finite'):
        stepped_arm.command({stepped_arm.joint_names[0]: float('nan')})


def test_two_of_them_do_not_hear_each_other(stepped_arm, gazebo, tmp_path):
    """A command to one Gazebo moves nothing in another on the same machine."""
    other = GazeboArm(tmp_path / 'other', lockstep=True)
    other.reset(SCENE)
    try:
        goal = HOME + [0.2, 0, 0, 0, 0, 0, 0]
        for _ in range(50):
            stepped_arm.command(dict(zip(stepped_arm.joint_names, goal, strict=True)))
            stepped_arm.advance(0.02)
            other.advance(0.02)
        assert stepped_arm.positions[0] == pytest.approx(goal[0], abs=5e-3)
        assert other.positions[0] == pytest.approx(HOME[0], abs=5e-3)
    finally:
        other.close()


def test_a_killed_gazebo_is_noticed_and_can_be_started_again(arm):
    """The error comes soon and says what happened; a reset brings a fresh one."""
    os.kill(arm.processes[0], signal.SIGKILL)
    with pytest.raises(GazeboLost, match='ended'):
        hold(arm, HOME, 2.0)

    arm.reset(SCENE)
    hold(arm, HOME, 0.1)
    np.testing.assert_allclose(arm.positions, HOME, atol=2e-3)


def test_a_frozen_gazebo_is_noticed(arm):
    """One that stands still without having been paused is lost."""
    os.kill(arm.processes[0], signal.SIGSTOP)
    try:
        began_s = time.monotonic()
        with pytest.raises(GazeboLost, match='stood still'):
            hold(arm, HOME, 60.0)
        assert time.monotonic() - began_s >= SILENT_S
    finally:
        os.kill(arm.processes[0], signal.SIGCONT)


def test_a_pause_is_waited_for(arm):
    """Whoever pauses Gazebo stops the arm's time; nothing is lost, and it goes on afterwards."""
    arm.pause(True)
    time.sleep(0.3)
    began_s = arm.time_s
    waker = threading.Timer(SILENT_S + 1.0, arm.pause, (False,))
    waker.start()
    arm.advance(0.1)
    waker.join()

    assert arm.time_s >= began_s + 0.09


def test_nothing_is_left_behind(gazebo, tmp_path):
    """After three starts and ends there is no process, no port and no display of ours."""
    for number in range(3):
        arm = GazeboArm(tmp_path / str(number))
        arm.reset(SCENE)
        arm.advance(0.05)
        pids = arm.processes
        arm.close()
        assert not [pid for pid in pids if Path(f'/proc/{pid}').exists()]


def test_it_must_be_started_first(tmp_path):
    """Reading pictures of an arm without a scene is an error in words."""
    with pytest.raises(SimError, match='reset'):
        GazeboArm(tmp_path).render()


def test_noise_is_refused_by_name():
    """Sensor noise is MuJoCo's; it is not silently left out."""
    from sim.arm_factory import make_arm

    with pytest.raises(SceneError, match='noise'):
        make_arm('gazebo', position_noise=0.01)
    with pytest.raises(SceneError, match='bullet'):
        make_arm('bullet')

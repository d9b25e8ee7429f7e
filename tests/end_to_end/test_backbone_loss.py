# SPDX-License-Identifier: Apache-2.0
"""Promises about a backbone that dies in the middle of a motion; everything over real ROS."""

from pathlib import Path

import numpy as np
from onboard_decoder.manifest_yaml import load_manifest
import pytest

pytest.importorskip('rclpy')

from rclpy.qos import qos_profile_sensor_data  # only after the check above
from sensor_msgs.msg import JointState
from tendon.conversation import result_of
from tendon.local_robot import local_robot, LocalRobot, Scene
from trajectory_msgs.msg import JointTrajectory

pytestmark = [pytest.mark.slow, pytest.mark.ros]
MANIFEST = load_manifest('tendon_arm')
CATCHING_UP = 1.5  # of the limit: a drive makes up for a message that came late


def test_the_arm_holds_and_goes_on_after_the_restart(tmp_path: Path) -> None:
    """Speed limits hold throughout, no tick is missed for it, the task is done afterwards."""
    with local_robot(tmp_path, Scene(7, 'put')) as robot:
        talk, speeds, commanded = robot.talk, listen(robot), overhear(robot)
        assert talk.wait(lambda: bool(talk.truth), 20.0)
        sentence = str(talk.truth['instruction'])
        talk.say(sentence)
        assert talk.wait(lambda: talk.status.get('step') == 'grasp', 40.0), talk.status
        before = missed(robot)
        robot.stack.kill('backbone')
        assert talk.wait(lambda: talk.status.get('link') != 'ready', 10.0), talk.status
        assert talk.wait(lambda: is_at_rest(speeds), 20.0)
        during = missed(robot)
        robot.restart_backbone()
        assert talk.wait(lambda: result_of(talk.status, sentence) is not None, 90.0), talk.status
        assert talk.wait(lambda: bool(talk.truth['success']), 5.0), talk.status
        assert during - before <= 2
    limits = MANIFEST.column('max_velocity')
    assert (np.abs(np.array(commanded)) <= 1.001 * limits).all()
    assert (np.abs(np.array(speeds)) <= CATCHING_UP * limits).all()


def listen(robot: LocalRobot) -> list[np.ndarray]:
    """Return a list that fills with measured joint speeds, in the manifest's order."""
    speeds: list[np.ndarray] = []

    def take(message: JointState) -> None:
        by_name = dict(zip(message.name, message.velocity, strict=True))
        speeds.append(np.array([by_name[name] for name in MANIFEST.joint_names]))

    robot.talk.node.create_subscription(
        JointState, 'joint_states', take, qos_profile_sensor_data
    )
    return speeds


def overhear(robot: LocalRobot) -> list[np.ndarray]:
    """Return a list that fills with commanded joint speeds, in the manifest's order."""
    speeds: list[np.ndarray] = []

    def take(message: JointTrajectory) -> None:
        assert tuple(message.joint_names) == MANIFEST.joint_names
        speeds.append(np.array(message.points[0].velocities))

    robot.talk.node.create_subscription(
        JointTrajectory, 'joint_trajectory_controller/joint_trajectory', take, 10
    )
    return speeds


def missed(robot: LocalRobot) -> int:
    """Return the missed ticks so far, from diagnostics that are newer than this call."""
    robot.talk.diagnostics.clear()
    assert robot.talk.wait(lambda: 'command loop' in robot.talk.diagnostics, 10.0)
    return int(robot.talk.diagnostics['command loop']['missed'])


def is_at_rest(speeds: list[np.ndarray]) -> bool:
    """Say whether the last half second of measurements shows no motion."""
    return len(speeds) > 50 and bool((np.abs(np.array(speeds[-50:])) < 0.02).all())

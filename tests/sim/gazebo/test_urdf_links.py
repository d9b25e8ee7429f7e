# SPDX-License-Identifier: Apache-2.0
"""Links and joints read from the URDF agree with what MuJoCo makes of the same file."""

import numpy as np
import pytest
from sim.arm_pose import JOINTS, tool_pose, URDF
from sim.gazebo.urdf_links import pose_text, position_between, UrdfLinks
from sim.model import MIMIC_JOINT

LINKS = UrdfLinks(URDF)
POSES = np.random.default_rng(3).uniform(-2.5, 0.2, (5, 6))


@pytest.mark.parametrize('arm', POSES, ids=range(len(POSES)))
def test_the_tool_is_where_mujoco_has_it(arm):
    """Poses of links follow from joint positions as in the other simulator."""
    pose = LINKS.poses(dict(zip(JOINTS, [*arm, 0.02], strict=True)))['tool0']

    position, rotation = tool_pose(arm)
    np.testing.assert_allclose(pose[:3, 3], position, atol=1e-12)
    np.testing.assert_allclose(pose[:3, :3], rotation, atol=1e-12)


@pytest.mark.parametrize('arm', POSES, ids=range(len(POSES)))
def test_joint_positions_come_back_from_poses(arm):
    """What a pose was made from can be read off it, for turning and sliding joints."""
    wanted = dict(zip(JOINTS, [*arm, 0.02], strict=True)) | {MIMIC_JOINT: 0.03}
    poses = LINKS.poses(wanted)

    for name, value in wanted.items():
        joint = LINKS.joints[name]
        assert position_between(joint, poses[joint.parent], poses[joint.child]) == (
            pytest.approx(value, abs=1e-9))


def test_a_pose_that_looks_straight_down_is_written_right():
    """At the pole roll and yaw are one angle, and the text still means the same rotation."""
    down = np.eye(4)
    down[:3, :3] = [[0, 1, 0], [0, 0, 1], [1, 0, 0]]

    x, y, z, roll, pitch, yaw = map(float, pose_text(down).split())
    cr, sr, cp, sp, cy, sy = (f(a) for a in (roll, pitch, yaw) for f in (np.cos, np.sin))
    turn = np.array([
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ])
    np.testing.assert_allclose(turn, down[:3, :3], atol=1e-9)

# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
from sim.arm_geometry import ArmGeometry, canonical_yaw
from sim.display import mujoco

URDF = Path(__file__).parents[2] / 'sim' / 'assets' / 'tendon_arm.urdf'
GEOMETRY = ArmGeometry.from_urdf(URDF)
LOWER, UPPER = np.array([0.28, -0.32, 0.01, -0.9]), np.array([0.66, 0.32, 0.35, 2.2])


def _draw_poses(count: int) -> np.ndarray:
    return np.random.default_rng(3).uniform(LOWER, UPPER, (count, 4))


def test_tool_position_agrees_with_the_urdf() -> None:
    """The closed form and MuJoCo's reading of the URDF give the same tool position."""
    spec = mujoco.MjSpec.from_file(str(URDF))
    spec.compiler.fusestatic = False
    model = spec.compile()
    data = mujoco.MjData(model)
    for joints in np.random.default_rng(1).uniform(-2.5, 2.5, (50, 6)):
        data.qpos[:6] = joints
        mujoco.mj_kinematics(model, data)

        np.testing.assert_allclose(
            GEOMETRY.poses(joints)[:3], data.body('tool0').xpos, atol=1e-8)


def test_inverse_and_forward_agree() -> None:
    """Joints of a pose lead back to that pose, everywhere in the workspace."""
    poses = _draw_poses(5000)

    np.testing.assert_allclose(GEOMETRY.poses(GEOMETRY.joints(poses)), poses, atol=1e-12)


def test_joints_stay_on_one_branch_within_the_limits() -> None:
    """The elbow is always up, and no joint comes near its limit."""
    joints = GEOMETRY.joints(_draw_poses(20000))

    assert np.all(joints[:, 2] > 0.9)
    assert np.all(joints[:, 2] < 2.8)
    assert np.all(np.abs(joints[:, [0, 3, 4, 5]]) < 3.02)


def test_joints_are_smooth_in_the_pose() -> None:
    """Slope and curvature of the joints over the workspace are bounded: no jump anywhere."""
    step = 0.005
    axes = [np.arange(low, high, step) for low, high in zip(LOWER[:3], UPPER[:3], strict=True)]
    grid = np.stack([*np.meshgrid(*axes, indexing='ij')], axis=-1)
    joints = GEOMETRY.joints(np.concatenate([grid, np.zeros((*grid.shape[:3], 1))], axis=-1))

    for axis in range(3):
        assert np.abs(np.diff(joints, axis=axis)).max() / step < 8.0          # [rad/m]
        assert np.abs(np.diff(joints, n=2, axis=axis)).max() / step**2 < 50.0   # [rad/m^2]


def test_pose_rates_are_the_derivative() -> None:
    """Rates agree with the change of the pose along a path."""
    joints, velocities = np.random.default_rng(2).uniform(-1, 1, (2, 20, 6))
    change = GEOMETRY.poses(joints + 1e-6 * velocities) - GEOMETRY.poses(joints)

    np.testing.assert_allclose(
        GEOMETRY.pose_rates(joints, velocities), change / 1e-6, atol=1e-4)


def test_out_of_reach_gives_finite_joints() -> None:
    """A pose that nobody can reach gives a stretched arm, never NaN."""
    far = np.array([[2.0, 0.0, 0.1, 0.0], [0.0, 0.0, 0.2, 0.0], [0.05, 0.05, -3.0, 1.0]])

    assert np.all(np.isfinite(GEOMETRY.joints(far)))


def test_yaw_is_the_same_gripper_orientation() -> None:
    """A canonical yaw differs from the yaw by whole half turns and lies in its interval."""
    yaw = np.linspace(-7, 7, 101)
    turns = (canonical_yaw(yaw) - yaw) / np.pi

    np.testing.assert_allclose(turns, np.round(turns), atol=1e-12)
    assert canonical_yaw(yaw).min() >= -0.9
    assert canonical_yaw(yaw).max() < -0.9 + np.pi

# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
from sim.arm_geometry import ARM_JOINTS, ArmGeometry
from sim.inverse_kinematics import InverseKinematics, ReachError

URDF = Path(__file__).parents[2] / 'sim' / 'assets' / 'tendon_arm.urdf'
HOME = (-0.42, -2.1, 2.0, -1.4708, -1.5708, 1.1508)


@pytest.fixture(scope='module')
def solver() -> InverseKinematics:
    return InverseKinematics(URDF, ARM_JOINTS, HOME)


def test_solver_agrees_with_the_closed_form(solver: InverseKinematics) -> None:
    """Starting from the home pose it finds the same branch as the closed form, everywhere."""
    geometry = ArmGeometry.from_urdf(URDF)
    poses = np.random.default_rng(5).uniform(
        [0.28, -0.32, 0.01, -0.9], [0.66, 0.32, 0.35, 2.2], (100, 4))

    found = np.array([solver.solve(pose) for pose in poses])

    np.testing.assert_allclose(found, geometry.joints(poses), atol=2e-4)


def test_neighbouring_poses_have_neighbouring_joints(solver: InverseKinematics) -> None:
    """Along a line over the table the joints never jump."""
    line = np.linspace([0.28, -0.32, 0.01, 0.0], [0.66, 0.32, 0.35, 0.5], 60)

    joints = np.array([solver.solve(pose) for pose in line])

    assert np.abs(np.diff(joints, axis=0)).max() < 0.1


def test_out_of_reach_names_the_pose(solver: InverseKinematics) -> None:
    """A pose that nobody can reach is an error with its numbers, not a near miss."""
    with pytest.raises(ReachError, match=r'x 1\.200, y 0\.000, z 0\.200 m.*out of reach'):
        solver.solve((1.2, 0.0, 0.2, 0.0))

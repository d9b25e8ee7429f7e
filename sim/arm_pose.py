# SPDX-License-Identifier: Apache-2.0
"""Names and home of the commanded joints, and joints that hold the tool over a point.

Knows poses, not motion: `joints_over` is exact, `tool_pose` asks MuJoCo and so checks it.
"""

from __future__ import annotations

from functools import lru_cache
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sim.arm_geometry import ARM_JOINTS, ArmGeometry
from sim.display import mujoco
from sim.errors import SceneError

URDF = Path(__file__).parent / 'assets' / 'tendon_arm.urdf'

JOINTS = (*ARM_JOINTS, 'gripper_left_finger_joint')
# Tool down at about (0.31, 0, 0.34), gripper open; [rad] and, for the finger, [m].
HOME = (-0.42, -2.1, 2.0, -1.4708, -1.5708, 1.1508, 0.042)

Array = NDArray[np.float64]


@lru_cache(maxsize=1)
def _arm() -> tuple[mujoco.MjModel, mujoco.MjData, ArmGeometry]:
    spec = mujoco.MjSpec.from_file(str(URDF))
    spec.compiler.fusestatic = False
    model = spec.compile()
    return model, mujoco.MjData(model), ArmGeometry.from_urdf(URDF)


def tool_pose(joints: Array | tuple[float, ...]) -> tuple[Array, Array]:
    """Give position (3,) [m] and rotation (3, 3) of tool0 in the base frame."""
    model, data, _ = _arm()
    data.qpos[:6] = joints[:6]
    mujoco.mj_kinematics(model, data)
    tool = model.body('tool0').id
    return data.xpos[tool].copy(), data.xmat[tool].reshape(3, 3).copy()


def tool_down(yaw: float) -> Array:
    """Rotation (3, 3) of a tool that points down and closes along base y turned by yaw [rad]."""
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([[-c, -s, 0.0], [-s, c, 0.0], [0.0, 0.0, -1.0]])


def joints_over(x: float, y: float, z: float, yaw: float, finger: float) -> tuple[float, ...]:
    """Joint positions (7,) with the tool pointing down at (x, y, z) [m], turned by yaw [rad].

    Raises:
        SceneError: the arm cannot get there.
    """
    model, _, geometry = _arm()
    pose = np.array([x, y, z, yaw])
    joints = geometry.joints(pose)
    lower, upper = model.jnt_range[:6].T
    missed = np.abs(geometry.poses(joints) - pose).max()
    if missed > 1e-6 or (joints < lower).any() or (joints > upper).any():
        raise SceneError('tool position', (x, y, z, yaw), 'points that the arm reaches from above')
    return (*map(float, joints), finger)

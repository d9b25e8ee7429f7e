# SPDX-License-Identifier: Apache-2.0
"""Joint positions that bring the tool over a point, for still pictures of the arm.

A few damped Gauss-Newton steps from the home pose; knows no limits of speed and no obstacles.
"""

from __future__ import annotations

from functools import lru_cache
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sim.display import mujoco
from sim.errors import SceneError

URDF = Path(__file__).parent / 'assets' / 'tendon_arm.urdf'

JOINTS = (
    'shoulder_pan_joint',
    'shoulder_lift_joint',
    'elbow_joint',
    'wrist_1_joint',
    'wrist_2_joint',
    'wrist_3_joint',
    'gripper_left_finger_joint',
)
# Tool down at about (0.31, 0, 0.34), gripper open; [rad] and, for the finger, [m].
HOME = (-0.42, -2.1, 2.0, -1.4708, -1.5708, 1.1508, 0.042)

Array = NDArray[np.float64]


@lru_cache(maxsize=1)
def _arm() -> tuple[mujoco.MjModel, mujoco.MjData]:
    spec = mujoco.MjSpec.from_file(str(URDF))
    spec.compiler.fusestatic = False
    model = spec.compile()
    return model, mujoco.MjData(model)


def tool_pose(joints: Array | tuple[float, ...]) -> tuple[Array, Array]:
    """Give position (3,) [m] and rotation (3, 3) of tool0 in the base frame."""
    model, data = _arm()
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
    model, data = _arm()
    target, rotation = np.array([x, y, z]), tool_down(yaw)
    q = np.array(HOME[:6])
    jacobian = np.zeros((6, model.nv))
    tool = model.body('tool0').id
    for _ in range(40):
        position, matrix = tool_pose(q)
        error = np.concatenate([target - position, _rotation_error(rotation, matrix)])
        if np.abs(error).max() < 1e-4:
            return (*map(float, q), finger)
        mujoco.mj_comPos(model, data)
        mujoco.mj_jacBody(model, data, jacobian[:3], jacobian[3:], tool)
        j = jacobian[:, :6]
        step = j.T @ np.linalg.solve(j @ j.T + 1e-4 * np.eye(6), error)
        q = np.clip(q + np.clip(step, -0.5, 0.5), *model.jnt_range[:6].T)
    raise SceneError('tool position', (x, y, z, yaw), 'points that the arm reaches from above')


def _rotation_error(wanted: Array, now: Array) -> Array:
    """Small rotation vector (3,) [rad] in the base frame from now to wanted."""
    vector: Array = 0.5 * np.sum(np.cross(now, wanted, axisa=0, axisb=0), axis=0)
    return vector

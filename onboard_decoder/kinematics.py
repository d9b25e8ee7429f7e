# SPDX-License-Identifier: Apache-2.0
"""Where the tool is for given joints: forward kinematics of the manifest's chain.

Pure numpy; no inverse kinematics, no collision model.
"""

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.manifest import Manifest, Transform

Array = NDArray[np.float64]


class ForwardKinematics:
    """Pose of the tool in the base frame."""

    def __init__(self, manifest: Manifest) -> None:
        self._fixed = [_matrix(transform) for transform in manifest.kinematics.chain]
        self._tool = _matrix(manifest.kinematics.tool)
        self._prismatic = [joint.unit == 'm' for joint in manifest.joints]

    def tool_in_base(self, positions: Array) -> Array:
        """Return the tool's homogeneous pose, (..., 4, 4) [m], for joints (..., joints)."""
        pose = np.eye(4)
        for index, fixed in enumerate(self._fixed):
            pose = pose @ fixed @ self._moved(index, positions[..., index])
        return np.asarray(pose @ self._tool)

    def tool_position(self, positions: Array) -> Array:
        """Return the tool's x, y, z in the base frame, (..., 3) [m]."""
        return self.tool_in_base(positions)[..., :3, 3]

    def tool_yaw(self, positions: Array) -> float:
        """Return the rotation of the gripper about the base's vertical [rad].

        0: the tool's y axis, along which the fingers close, lies along the base's y axis. A
        parallel gripper looks the same after half a turn: the result is in -pi/2..pi/2.
        """
        y_axis = self.tool_in_base(positions)[:3, 1]
        yaw = float(np.arctan2(-y_axis[0], y_axis[1]))
        return (yaw + np.pi / 2) % np.pi - np.pi / 2

    def _moved(self, index: int, values: Array) -> Array:
        """Return the joint's own motion along or about its z axis, (..., 4, 4)."""
        motion = np.zeros((*np.shape(values), 4, 4))
        motion[..., 2, 2] = motion[..., 3, 3] = 1.0
        if self._prismatic[index]:
            motion[..., 0, 0] = motion[..., 1, 1] = 1.0
            motion[..., 2, 3] = values
            return motion
        motion[..., 0, 0] = motion[..., 1, 1] = np.cos(values)
        motion[..., 1, 0] = np.sin(values)
        motion[..., 0, 1] = -motion[..., 1, 0]
        return motion


def _matrix(transform: Transform) -> Array:
    """Return the homogeneous matrix of a URDF origin, (4, 4)."""
    roll, pitch, yaw = transform.rpy
    cr, sr, cp, sp = np.cos(roll), np.sin(roll), np.cos(pitch), np.sin(pitch)
    cy, sy = np.cos(yaw), np.sin(yaw)
    return np.array([
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr, transform.xyz[0]],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr, transform.xyz[1]],
        [-sp, cp * sr, cp * cr, transform.xyz[2]],
        [0.0, 0.0, 0.0, 1.0],
    ])

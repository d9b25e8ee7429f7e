# SPDX-License-Identifier: Apache-2.0
"""Closed-form kinematics of the arm in `assets/tendon_arm.urdf`, for many poses at once.

Knows: the six joints of a UR-like arm with the tool pointing straight down, elbow up. With the
tool down, wrist_2 is constant and the three joints in between form a planar two-bar linkage, so
the inverse is exact and smooth over the whole reach. Knows nothing about limits, time or other
arms (`inverse_kinematics` serves those).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ARM_JOINTS = (
    'shoulder_pan_joint', 'shoulder_lift_joint', 'elbow_joint',
    'wrist_1_joint', 'wrist_2_joint', 'wrist_3_joint',
)
LOWEST_YAW = -0.9   # [rad] every gripper orientation is repeated after pi; see `canonical_yaw`


def canonical_yaw(yaw: Array) -> Array:
    """Same gripper orientation with the yaw [rad] in [LOWEST_YAW, LOWEST_YAW + pi)."""
    return LOWEST_YAW + np.mod(yaw - LOWEST_YAW, np.pi)


@dataclass(frozen=True)
class ArmGeometry:
    """Link lengths [m] of the arm, in the usual names of its Denavit-Hartenberg table."""

    shoulder_height: float
    upper_arm: float
    forearm: float
    side_offset: float      # from the plane of the two-bar linkage to the wrist, along base y
    wrist_length: float     # from wrist_1 to the tool's axis, along the reach
    tool_drop: float        # from wrist_2 down to the tool's centre point

    @classmethod
    def from_urdf(cls, path: Path) -> ArmGeometry:
        """Read the lengths from the joint origins of a URDF file."""
        origins = {
            str(joint.get('name')): [float(v) for v in _origin(joint).split()]
            for joint in ElementTree.parse(path).getroot().iter('joint')
        }
        return cls(
            shoulder_height=origins['shoulder_pan_joint'][2],
            upper_arm=-origins['elbow_joint'][0],
            forearm=-origins['wrist_1_joint'][0],
            side_offset=origins['wrist_1_joint'][2],
            wrist_length=-origins['wrist_2_joint'][1],
            tool_drop=origins['wrist_3_joint'][1] + origins['tool_joint'][2],
        )

    def joints(self, poses: Array) -> Array:
        """Arm joints of tool-down poses; poses out of reach give the nearest stretched arm.

        Args:
            poses: Tool x, y, z [m] and yaw [rad] in base. Shape (..., 4).

        Returns:
            Joint positions [rad] in the order of ARM_JOINTS. Shape (..., 6).
        """
        x, y, z, yaw = np.moveaxis(np.asarray(poses, dtype=np.float64), -1, 0)
        radius = np.maximum(np.hypot(x, y), self.side_offset + 1e-6)
        pan = np.arctan2(y, x) - np.arcsin(self.side_offset / radius)
        reach = np.sqrt(radius**2 - self.side_offset**2) - self.wrist_length
        height = z + self.tool_drop - self.shoulder_height
        a, b = self.upper_arm, self.forearm
        cosine = (reach**2 + height**2 - a**2 - b**2) / (2 * a * b)
        elbow = np.arccos(np.clip(cosine, -1.0, 1.0))
        rise = np.arctan2(height, reach) + np.arctan2(b * np.sin(elbow), a + b * np.cos(elbow))
        wrist_1 = -np.pi / 2 + rise - elbow
        wrist_2 = np.full_like(pan, -np.pi / 2)
        return np.stack([pan, -rise, elbow, wrist_1, wrist_2, pan + np.pi / 2 - yaw], axis=-1)

    def poses(self, joints: Array) -> Array:
        """Tool x, y, z [m] of any arm joints, and its yaw [rad] as if it pointed down.

        Args:
            joints: Joint positions [rad] in the order of ARM_JOINTS. Shape (..., 6).

        Returns:
            Shape (..., 4).
        """
        pan, lift, elbow, wrist_1, wrist_2, wrist_3 = np.moveaxis(np.asarray(joints), -1, 0)
        rise, fore, bend = -lift, -lift - elbow, -lift - elbow - wrist_1
        # In the plane of the linkage: out = along the reach, up = vertical, side = out of plane.
        out = self.upper_arm * np.cos(rise) + self.forearm * np.cos(fore)
        up = self.upper_arm * np.sin(rise) + self.forearm * np.sin(fore)
        out = out + self.wrist_length * np.sin(bend)
        up = up - self.wrist_length * np.cos(bend)
        tilt = -np.sin(wrist_2) * self.tool_drop
        out, up = out - tilt * np.cos(bend), up - tilt * np.sin(bend)
        side = self.side_offset + self.tool_drop * np.cos(wrist_2)
        x = out * np.cos(pan) - side * np.sin(pan)
        y = out * np.sin(pan) + side * np.cos(pan)
        yaw = pan + np.pi / 2 - wrist_3
        return np.stack([x, y, up + self.shoulder_height, yaw], axis=-1)

    def pose_rates(self, joints: Array, velocities: Array, step_s: float = 1e-5) -> Array:
        """Rate of change of `poses` [m/s, rad/s] for joint velocities [rad/s]. Shape (..., 4)."""
        ahead, behind = joints + step_s * velocities, joints - step_s * velocities
        rates: Array = (self.poses(ahead) - self.poses(behind)) / (2 * step_s)
        return rates


def _origin(joint: ElementTree.Element) -> str:
    origin = joint.find('origin')
    return '0 0 0' if origin is None else origin.get('xyz', '0 0 0')

# SPDX-License-Identifier: Apache-2.0
"""Forward kinematics as a fixed layer: where the tool is and how fast, from joints, in torch.

Built from a manifest's chain; nothing in it is learned. It spares the network from learning what
the robot says of itself, and exports to a handful of multiplications.
"""

from __future__ import annotations

import math

from onboard_decoder.manifest import Kinematics, Transform
import torch
from torch import nn, Tensor


class ToolLayer(nn.Module):
    """Tool position and velocity of a chain of revolute joints."""

    rotations: Tensor
    offsets: Tensor

    def __init__(self, kinematics: Kinematics) -> None:
        super().__init__()
        transforms = [*kinematics.chain, kinematics.tool]
        self.register_buffer('rotations', torch.stack([_rotation(t) for t in transforms]))
        self.register_buffer('offsets', torch.tensor([t.xyz for t in transforms]))

    def forward(self, joints: Tensor, velocities: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the tool's state in base.

        Args:
            joints: (batch, chain) [rad].
            velocities: (batch, chain) [rad/s].

        Returns:
            Position (batch, 3) [m] and velocity (batch, 3) [m/s].
        """
        count = joints.shape[1]
        rotation = torch.eye(3, dtype=joints.dtype, device=joints.device).expand(
            joints.shape[0], 3, 3)
        origin = torch.zeros_like(joints[:, :3])
        axes, origins = [], []
        for index in range(count):
            origin = origin + rotation @ self.offsets[index]    # (batch, 3)
            rotation = rotation @ self.rotations[index]         # (batch, 3, 3)
            axes.append(rotation[:, :, 2])
            origins.append(origin)
            rotation = rotation @ _about_z(joints[:, index])
        tool = origin + rotation @ self.offsets[count]
        velocity = torch.zeros_like(tool)
        for index in range(count):
            arm = tool - origins[index]
            turning = axes[index] * velocities[:, index:index + 1]
            velocity = velocity + torch.linalg.cross(turning, arm)
        return tool, velocity


def _about_z(angle: Tensor) -> Tensor:
    """Rotation matrices about z, (batch, 3, 3)."""
    cos, sin, zero, one = angle.cos(), angle.sin(), torch.zeros_like(angle), torch.ones_like(angle)
    rows = torch.stack([cos, -sin, zero, sin, cos, zero, zero, zero, one], dim=1)
    return rows.reshape(-1, 3, 3)


def _rotation(transform: Transform) -> Tensor:
    """Fixed rotation of a URDF origin, (3, 3)."""
    roll, pitch, yaw = transform.rpy
    cr, sr, cp, sp = math.cos(roll), math.sin(roll), math.cos(pitch), math.sin(pitch)
    cy, sy = math.cos(yaw), math.sin(yaw)
    return torch.tensor([
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ])

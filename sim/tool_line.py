# SPDX-License-Identifier: Apache-2.0
"""The path of a move: a straight line of the tool, or of the joints where a tool line is no use.

Knows geometry and how fast the joints may go along it; knows nothing of skills, time or fingers.

On a tool line the tool's x, y, z and yaw go straight to the goal while it points down. What the
start deviates from a tool that points down, the residual, fades on its own. A joint line is used
to go home, and from poses whose residual is too large to fade beside a tool line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sim.arm_geometry import ArmGeometry
from sim.arm_limits import ArmLimits

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

YAW_LENGTH = 0.12       # [m/rad] how much one radian of yaw counts as length of a line
TOOL_SPEED = 0.6        # [m/s] cap on a tool line
RESIDUAL_LIMIT = 0.35   # [rad]
MARGIN = 0.8            # share of the joints' limits that a move may use
JERK_MARGIN = 0.6      # the same for jerk, which the curvature of the path adds to
CURVATURE_SHARE = 0.35  # share of the acceleration kept for following the path's curvature
_SAMPLES = 7
_NUDGE = 1e-3           # [m] step of the numerical derivatives along a line
_SCALE = np.array([1.0, 1.0, 1.0, YAW_LENGTH])


@dataclass(frozen=True)
class Line:
    """Straight paths in a space of six coordinates: tool x, y, z, scaled yaw, 0, 0, or six joints.

    Attributes:
        in_joints: True for joint lines. Shape (moves,).
        origin, direction: of each line; directions have length 1. Shape (moves, 6).
        side: unit vector of the start velocity's part across the line. Shape (moves, 6).
        length: distance to go [m] or [rad]. Shape (moves,).
        speed, side_speed: start velocity along and across. Shape (moves,).
        acceleration: start acceleration along. Shape (moves,).
        residual, residual_rate: what tool lines leave to fade [rad], [rad/s]. Shape (moves, 6).
    """

    in_joints: Mask
    origin: Array
    direction: Array
    side: Array
    length: Array
    speed: Array
    side_speed: Array
    acceleration: Array
    residual: Array
    residual_rate: Array


class LinePlanner:
    """Lays lines and says how fast an arm may follow them."""

    def __init__(self, geometry: ArmGeometry, limits: ArmLimits) -> None:
        self._geometry = geometry
        self._limits = limits

    def lay(self, joints: Array, velocities: Array, accelerations: Array, targets: Array,
            homing: Mask) -> Line:
        """Lay the lines of many moves.

        Args:
            joints: of the arm at the start [rad]. Shape (moves, 6).
            velocities: the same [rad/s].
            accelerations: the same [rad/s^2].
            targets: tool x, y, z [m], yaw [rad]. Shape (moves, 4).
            homing: True where the goal is the home pose. Shape (moves,).
        """
        pose = self._geometry.poses(joints)
        on_line = self._geometry.joints(pose)
        residual = joints - on_line
        in_joints = homing | (np.abs(residual).max(1) > RESIDUAL_LIMIT)
        rate = self._geometry.pose_rates(joints, velocities)
        ahead = self._geometry.joints(pose + 1e-4 * rate)
        behind = self._geometry.joints(pose - 1e-4 * rate)
        residual_rate = velocities - (ahead - behind) / 2e-4
        goal_joints = np.where(
            homing[:, None], self._limits.home[:6], self._geometry.joints(targets))
        bend = self._pose_accelerations(joints, velocities, accelerations)

        def choose(in_joint_space: Array, in_tool_space: Array) -> Array:
            padded = np.pad(in_tool_space * _SCALE, ((0, 0), (0, 2)))
            return np.where(in_joints[:, None], in_joint_space, padded)

        keep = ~in_joints[:, None]
        return _line(in_joints, choose(joints, pose), choose(goal_joints, targets),
                     choose(velocities, rate), choose(accelerations, bend),
                     residual * keep, residual_rate * keep)

    def joints(self, line: Line, along: Array, across: Array) -> Array:
        """Joints at distances along and across the lines, residual not included.

        Args:
            line: the lines.
            along: along the direction. Shape (moves, times).
            across: along the side. Shape (moves, times).

        Returns:
            Shape (moves, times, 6).
        """
        point = (line.origin[:, None] + along[..., None] * line.direction[:, None]
                 + across[..., None] * line.side[:, None])
        tool = self._geometry.joints(point[..., :4] / _SCALE)
        return np.where(line.in_joints[:, None, None], point, tool)

    def limits(self, line: Line, speed: Array) -> Array:
        """Largest velocity, acceleration and jerk along each line. Shape (moves, 3).

        Args:
            line: the lines.
            speed: share of the joints' speed limits to use, (0, 1]. Shape (moves,).
        """
        shares = np.linspace(0.0, 1.0, _SAMPLES) * line.length[:, None]
        before, at, after = (
            self.joints(line, shares + nudge, 0 * shares) for nudge in (-_NUDGE, 0.0, _NUDGE))
        slope = np.abs(after - before).reshape(len(speed), -1, 6) / (2 * _NUDGE) + 1e-9
        curvature = np.abs(after - 2 * at + before) / _NUDGE**2
        most = MARGIN * self._limits.acceleration[:6]
        velocity = (MARGIN * speed[:, None, None] * self._limits.velocity[:6] / slope).min((1, 2))
        bend = np.sqrt(CURVATURE_SHARE * most / (curvature + 1e-9)).min((1, 2))
        velocity = np.minimum(np.minimum(velocity, bend),
                              np.where(line.in_joints, np.inf, TOOL_SPEED * speed))
        acceleration = ((most - curvature * velocity[:, None, None]**2) / slope).min((1, 2))
        jerk = (JERK_MARGIN * self._limits.jerk[:6] / slope).min((1, 2))
        return np.stack([velocity, acceleration, jerk], axis=1)

    def _pose_accelerations(self, joints: Array, velocities: Array, accelerations: Array) -> Array:
        h = 1e-3
        ahead, behind = (
            self._geometry.poses(joints + t * velocities + t * t / 2 * accelerations)
            for t in (h, -h))
        return (ahead - 2 * self._geometry.poses(joints) + behind) / h**2


def _line(in_joints: Mask, origin: Array, goal: Array, velocity: Array, acceleration: Array,
          residual: Array, residual_rate: Array) -> Line:
    """Split the start velocity into its parts along and across the way to the goal."""
    way = goal - origin
    length = np.linalg.norm(way, axis=1)
    pace = np.linalg.norm(velocity, axis=1)
    forward = np.eye(6)[0]
    drift = np.where(pace[:, None] > 1e-6, velocity / np.maximum(pace, 1e-9)[:, None], forward)
    direction = np.where(length[:, None] > 1e-5, way / np.maximum(length, 1e-9)[:, None], drift)
    speed = np.sum(velocity * direction, axis=1)
    across = velocity - speed[:, None] * direction
    side_speed = np.linalg.norm(across, axis=1)
    side = across / np.maximum(side_speed, 1e-9)[:, None]
    return Line(in_joints, origin, direction, side, length, speed, side_speed,
                np.sum(acceleration * direction, axis=1), residual, residual_rate)

# SPDX-License-Identifier: Apache-2.0
"""The motion expert: a skill with its target, and the arm's state, give a smooth motion to rest.

A function of what the onboard decoder sees (skill, target, gripper, speed, joints, velocities)
and nothing else: no memory of when the skill began, no phase variable. That is what makes the
decoder learnable from it. Knows no scene, no physics and no plan.

All skills go straight: see `tool_line` for the path, `finger_motion` for the gripper.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sim.arm_geometry import ArmGeometry, canonical_yaw
from sim.arm_limits import ArmLimits
from sim.finger_motion import FingerMotion, FingerPlanner
from sim.motion_profile import fastest, MotionProfile
from sim.tool_line import Line, LinePlanner

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

SKILLS = ('reach', 'grasp', 'lift', 'move', 'place', 'push', 'home', 'hold')
ARRIVED = 0.006         # [m] (or 2.5 times that in [rad] on a joint line) to go: fingers may act
NEAR = 0.020            # [m] to go: fingers that have begun go on
SETTLED = 0.003         # [m] to go at rest: the arm's part of the skill is over
SETTLED_SPEED = 0.02    # [m/s]
TILTED = 0.01           # [rad] of residual
FADE_S = 0.3            # least time for the residual of a start pose to fade


@dataclass(frozen=True)
class Moves:
    """What the expert is asked for, for many moves at once.

    Attributes:
        skills: index in SKILLS. Shape (moves,).
        targets: tool x, y, z [m] and yaw [rad] in base; without meaning for 'home'.
            Shape (moves, 4).
        openings: of the gripper at the end, 0 closed to 1 open. Shape (moves,).
        speeds: share of the speed limits, (0, 1]. Shape (moves,).
        joints, velocities: manifest order, finger last. Shape (moves, joints).
        accelerations: of the arm, if known. Shape (moves, 6).
        stops: position [m] at which a thing stops the closing fingers, if known; only
            `Motion.remaining_s` uses it. Shape (moves,).
    """

    skills: NDArray[np.int64]
    targets: Array
    openings: Array
    speeds: Array
    joints: Array
    velocities: Array
    accelerations: Array | None = None
    stops: Array | None = None

    @classmethod
    def single(cls, skill: str, target: Array, opening: float, speed: float, joints: Array,
               velocities: Array) -> Moves:
        """One move."""
        return cls(np.array([SKILLS.index(skill)]), np.reshape(target, (1, 4)),
                   np.array([opening]), np.array([speed]), np.reshape(joints, (1, -1)),
                   np.reshape(velocities, (1, -1)))


@dataclass(frozen=True)
class Motion:
    """Motions of many moves.

    Attributes:
        remaining_s: time until arm and fingers have done their part. Shape (moves,).
        duration_s: time until everything commanded is at rest. Shape (moves,).
    """

    planner: LinePlanner
    line: Line
    along: MotionProfile
    across: MotionProfile
    fade_s: Array
    finger: FingerMotion
    limits: ArmLimits
    remaining_s: Array

    @property
    def duration_s(self) -> Array:
        """Time until everything commanded is at rest. Shape (moves,)."""
        finger = self.finger.switch_s + self.finger.after.duration_s
        arm: Array = np.maximum(self.along.duration_s, self.across.duration_s)
        return np.maximum(np.maximum(arm, finger), np.where(_tilted(self.line), self.fade_s, 0.0))

    def positions(self, times_s: Array) -> Array:
        """Joint positions at times [s] after the start.

        Args:
            times_s: Shape (moves, times).

        Returns:
            Shape (moves, times, joints).
        """
        arm = self.planner.joints(self.line, self.along.at(times_s)[0], self.across.at(times_s)[0])
        t = np.clip(times_s / self.fade_s[:, None], 0.0, 1.0)[..., None]
        start = 1 - t**3 * (10 - t * (15 - 6 * t))
        drift = t * (1 - t**2 * (6 - t * (8 - 3 * t)))
        arm = (arm + start * self.line.residual[:, None]
               + drift * (self.fade_s[:, None] * self.line.residual_rate)[:, None])
        finger = self.finger.at(times_s)[0]
        joints = np.concatenate([arm, finger[..., None]], axis=2)
        clipped: Array = np.clip(joints, self.limits.lower, self.limits.upper)
        return clipped


class Expert:
    """Plans moves of one arm."""

    def __init__(self, geometry: ArmGeometry, limits: ArmLimits) -> None:
        self.limits = limits
        self.geometry = geometry
        self._lines = LinePlanner(geometry, limits)
        self._fingers = FingerPlanner(limits)

    def plan(self, moves: Moves) -> Motion:
        """Plan many moves; each keeps the limits with a margin if its start state does."""
        line = self._lay(moves)
        along, across = self._profiles(line, moves.speeds)
        arrived = np.where(line.in_joints, 2.5, 1.0) * ARRIVED
        slow = np.hypot(line.speed, line.side_speed) < SETTLED_SPEED
        settled = slow & (line.length < np.where(line.in_joints, 2.5, 1.0) * SETTLED)
        finger = self._fingers.plan(
            moves.skills == SKILLS.index('grasp'), moves.skills == SKILLS.index('place'),
            moves.openings, moves.joints[:, -1], moves.velocities[:, -1],
            line.length < NEAR, along.first_within(arrived),
            np.zeros(len(line.length)) if moves.stops is None else moves.stops)
        fade = self._fade(line)
        arm = np.where(settled, 0.0, np.maximum(along.duration_s, across.duration_s))
        arm = np.where(_tilted(line), np.maximum(arm, fade), arm)
        return Motion(self._lines, line, along, across, fade, finger, self.limits,
                      np.maximum(arm, finger.remaining_s))

    def _lay(self, moves: Moves) -> Line:
        joints, velocities = moves.joints[:, :6], moves.velocities[:, :6]
        given = moves.accelerations
        accelerations = np.zeros_like(joints) if given is None else given
        targets = moves.targets.astype(np.float64).copy()
        targets[:, 3] = canonical_yaw(targets[:, 3])
        return self._lines.lay(joints, velocities, accelerations, targets,
                               moves.skills == SKILLS.index('home'))

    def _profiles(self, line: Line, speeds: Array) -> tuple[MotionProfile, MotionProfile]:
        limits = self._lines.limits(line, speeds)
        nothing = np.zeros_like(line.length)
        start = np.stack([nothing, line.speed, line.acceleration], axis=1)
        aside = np.stack([nothing, line.side_speed, nothing], axis=1)
        return fastest(start, line.length, limits), fastest(aside, nothing, 0.5 * limits)

    def _fade(self, line: Line) -> Array:
        """Time [s] in which the residual fades within a third of the limits. Shape (moves,)."""
        size, rate = np.abs(line.residual), np.abs(line.residual_rate)
        v, a = self.limits.velocity[:6] / 3, self.limits.acceleration[:6] / 3
        needed = np.maximum(1.9 * size / v, np.sqrt(5.8 * size / a))
        needed = np.maximum(needed, np.minimum(4.0 * rate / a, 1.0)).max(1)
        fade: Array = np.maximum(needed, FADE_S)
        return fade


def _tilted(line: Line) -> Mask:
    """Tell which starts deviate so much from a tool-down pose that the fading counts as motion."""
    tilted: Mask = np.abs(line.residual).max(1) > TILTED
    return tilted

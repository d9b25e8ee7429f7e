# SPDX-License-Identifier: Apache-2.0
"""When and how the fingers move during a skill, for many moves at once.

GRASP opens, and closes when the tool has arrived; PLACE keeps closed, and opens when it has; all
other skills bring the fingers to the wanted opening on the way. Positions are commands: fingers
that stand still around a thing are commanded fully closed, so that they keep their grip.
Knows nothing of the arm but when it arrives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sim.arm_limits import ArmLimits
from sim.motion_profile import fastest, MotionProfile

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

MARGIN = 0.8
BLOCKED_BELOW = 0.036   # [m] fingers that stand still below this opening have met something
BLOCKED_SPEED = 0.01    # [m/s]
GRASP_BEGUN = 0.036     # [m] a grasp whose fingers are below has begun to close
PLACE_BEGUN = 0.026     # [m] a placement whose fingers are above has begun to open
SETTLED = 0.0015        # [m]


@dataclass(frozen=True)
class FingerMotion:
    """Finger commands before and after the moment when the tool arrives.

    Attributes:
        before, after: motions of the finger position [m].
        switch_s: when `after` begins. Shape (moves,).
        remaining_s: time until the fingers have done their part. Shape (moves,).
    """

    before: MotionProfile
    after: MotionProfile
    switch_s: Array
    remaining_s: Array

    def at(self, times_s: Array) -> tuple[Array, Array]:
        """Finger position [m] and velocity [m/s] at times [s]; each of shape (moves, times)."""
        early = times_s < self.switch_s[:, None]
        first = self.before.at(times_s)
        second = self.after.at(np.maximum(times_s - self.switch_s[:, None], 0.0))
        return (np.where(early, first[0], second[0]), np.where(early, first[1], second[1]))


class FingerPlanner:
    """Plans the fingers' part of moves."""

    def __init__(self, limits: ArmLimits) -> None:
        self._limits = limits
        columns = (limits.velocity, limits.acceleration, limits.jerk)
        self._bounds = np.array([MARGIN * column[-1] for column in columns])

    def plan(self, grasping: Mask, placing: Mask, opening: Array, finger: Array,
             velocity: Array, near: Mask, arrival_s: Array, stop: Array) -> FingerMotion:
        """Plan finger motions.

        Args:
            grasping: which moves are GRASP. All arguments have the shape (moves,).
            placing: which moves are PLACE.
            opening: wanted at the end, 0 to 1.
            finger: measured position [m].
            velocity: measured velocity [m/s].
            near: True where the tool is close enough for fingers that have begun to go on.
            arrival_s: when the tool arrives [s].
            stop: position [m] at which a thing stops closing fingers; 0 for none.
        """
        goal = self._limits.finger(opening)
        late = grasping | placing
        first_goal = np.where(grasping, self._limits.open_position,
                              np.where(placing, self._limits.closed_position, goal))
        begun = near & ((grasping & (finger < GRASP_BEGUN)) | (placing & (finger > PLACE_BEGUN)))
        switch = np.where(late & ~begun, arrival_s, 0.0)
        before = self._towards(first_goal, finger, velocity)
        position, speed, acceleration = (
            column[:, 0] for column in before.at(np.maximum(switch, 0.0)[:, None]))
        unmoved = switch <= 0.0
        position, speed = np.where(unmoved, finger, position), np.where(unmoved, velocity, speed)
        after = self._towards(goal, position, speed, np.where(unmoved, 0.0, acceleration))
        done = np.maximum(goal, np.where(goal < position, stop, 0.0))
        closing = after.first_within(np.abs(goal - done) + SETTLED / 2)
        settled = (np.abs(finger - goal) < SETTLED) | _blocked(goal, finger, velocity)
        remaining = switch + np.where(unmoved & settled, 0.0, closing)
        return FingerMotion(before, after, switch, remaining)

    def _towards(self, goal: Array, finger: Array, velocity: Array,
                 acceleration: Array | None = None) -> MotionProfile:
        """Motion to a goal; fingers blocked on the way are commanded to the goal at once."""
        blocked = _blocked(goal, finger, velocity)
        rest = np.zeros_like(finger) if acceleration is None else acceleration
        start = np.stack([np.where(blocked, goal, finger), np.where(blocked, 0.0, velocity),
                          np.where(blocked, 0.0, rest)], axis=1)
        return fastest(start, goal, np.broadcast_to(self._bounds, (len(goal), 3)))


def _blocked(goal: Array, finger: Array, velocity: Array) -> Mask:
    still = np.abs(velocity) < BLOCKED_SPEED
    blocked: Mask = still & (finger < BLOCKED_BELOW) & (goal < finger - SETTLED)
    return blocked

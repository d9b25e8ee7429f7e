# SPDX-License-Identifier: Apache-2.0
"""How a new chunk takes over: it starts where the arm is led now, and what was off fades out.

The offset between what was played and the new chunk, in position, velocity and acceleration, is
added to the new chunk and led to zero by a polynomial of fifth degree: the one with the least
jerk of all that leave no step in position, velocity or acceleration at either end. Knows rows of
joint targets at the control period; nothing of ticks, limits or where chunks come from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.manifest import Manifest

Array = NDArray[np.float64]

_MOST_TICKS = 30

@dataclass(frozen=True, slots=True)
class Course:
    """Where joints are led at one moment and how that goes on, each (joints,).

    Velocities are per tick, accelerations per tick squared.
    """

    positions: Array
    velocities: Array
    accelerations: Array

    def moved(self, ticks: float) -> Course:
        """Return the course so many ticks later, or before where negative."""
        velocities = self.velocities + ticks * self.accelerations
        return Course(
            self.positions + ticks * (self.velocities + velocities) / 2,
            velocities,
            self.accelerations,
        )

    def off(self, other: Course) -> Course:
        """Return how far this one is off another."""
        return Course(
            self.positions - other.positions,
            self.velocities - other.velocities,
            self.accelerations - other.accelerations,
        )

    def clipped(self, velocities: Array, accelerations: Array) -> Course:
        """Return one that is no steeper than that, each (joints,)."""
        return Course(
            self.positions,
            np.clip(self.velocities, -velocities, velocities),
            np.clip(self.accelerations, -accelerations, accelerations),
        )


@dataclass(frozen=True, slots=True)
class Steepest:
    """What an arm can do, each (joints,): velocities per tick, accelerations per tick^2, jerks."""

    velocities: Array
    accelerations: Array
    jerks: Array

    @classmethod
    def of(cls, manifest: Manifest) -> Steepest:
        """Return that of a robot; its fingers are to be quick, not smooth."""
        period_s = manifest.control_period_s
        limits = [
            manifest.column('max_velocity') * period_s,
            manifest.column('max_acceleration') * period_s**2,
            manifest.column('max_jerk') * period_s**3,
        ]
        for limit in limits:
            limit[manifest.gripper_index] = np.inf
        return cls(*limits)

    @classmethod
    def unbounded(cls, joint_count: int) -> Steepest:
        """Return that of an arm without limits."""
        return cls(*(np.full(joint_count, np.inf),) * 3)

    def fade_ticks(self, offset: Course, share: float, least: int) -> Array:
        """Return how long each joint's offset takes to fade out, at least so long, (joints,).

        No fade takes more than a share of a limit: the chunk moves the arm too.
        """
        way, speed, bend = (
            np.abs(offset.positions), np.abs(offset.velocities), np.abs(offset.accelerations))
        # The numbers are the steepest points of the polynomials of ``fading``.
        ticks = np.max([
            1.875 * way / (share * self.velocities),
            np.sqrt(5.774 * way / (share * self.accelerations)),
            4.0 * speed / (share * self.accelerations),
            np.cbrt(60.0 * way / (share * self.jerks)),
            np.sqrt(36.0 * speed / (share * self.jerks)),
            9.0 * bend / (share * self.jerks),
        ], axis=0)
        return np.asarray(np.clip(ticks, least, max(least, _MOST_TICKS)))


def fading(offset: Course, ticks: Array, count: int) -> Array:
    """Return an offset that fades out in so many ticks of each joint, (count, joints).

    Row 0 is one tick after the moment of the offset. With fewer rows it is not gone at the last
    one: smooth comes first.
    """
    x = np.minimum(np.arange(1, count + 1)[:, None] / (ticks + 1), 1.0)
    left = (1 - x) ** 3
    return np.asarray(
        left * (1 + 3 * x + 6 * x**2) * offset.positions
        + left * (1 + 3 * x) * x * (ticks + 1) * offset.velocities
        + left * 0.5 * x**2 * (ticks + 1) ** 2 * offset.accelerations
    )

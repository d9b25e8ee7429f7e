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

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Course:
    """Where joints are led at one moment and how that goes on, each (joints,).

    Velocities are per tick, accelerations per tick squared.
    """

    positions: Array
    velocities: Array
    accelerations: Array

    def after(self, ticks: float) -> Array:
        """Return the positions so many ticks later, or before where negative, (joints,)."""
        return np.asarray(
            self.positions + ticks * self.velocities + 0.5 * ticks**2 * self.accelerations
        )

    def off(self, other: Course) -> Course:
        """Return how far this one is off another."""
        return Course(
            self.positions - other.positions,
            self.velocities - other.velocities,
            self.accelerations - other.accelerations,
        )

    def clipped(self, velocities: Array, accelerations: Array) -> Course:
        """Return one that is no steeper than what an arm can do, each (joints,)."""
        return Course(
            self.positions,
            np.clip(self.velocities, -velocities, velocities),
            np.clip(self.accelerations, -accelerations, accelerations),
        )


def fading(offset: Course, fade_ticks: int, count: int) -> Array:
    """Return an offset that fades out, (count, joints): whole at row 0, gone at ``fade_ticks``.

    Where there are fewer rows, it is not gone at the last one: smooth comes first.
    """
    x = np.minimum(np.arange(count) / fade_ticks, 1.0)[:, None]
    left = (1 - x) ** 3
    return np.asarray(
        left * (1 + 3 * x + 6 * x**2) * offset.positions
        + left * (1 + 3 * x) * x * fade_ticks * offset.velocities
        + left * 0.5 * x**2 * fade_ticks**2 * offset.accelerations
    )

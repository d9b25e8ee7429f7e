# SPDX-License-Identifier: Apache-2.0
"""Fastest motion of one axis from any state to rest, for many axes at once.

ruckig finds the phases of constant jerk; numpy evaluates all axes at all times together. Knows
neither joints nor tools: an axis is a number with limits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
import ruckig

Array = NDArray[np.float64]

PHASES = 9      # two that bring the start inside the limits, seven of the motion
_STILL = 1e-9


@dataclass(frozen=True)
class MotionProfile:
    """Phases of constant jerk per axis.

    Attributes:
        ends_s: when each phase ends. Shape (axes, phases).
        jerks: jerk in each phase. Shape (axes, phases).
        states: position, velocity, acceleration at the start of each phase.
            Shape (axes, phases, 3).
        goals: final positions. Shape (axes,).
    """

    ends_s: Array
    jerks: Array
    states: Array
    goals: Array

    @property
    def duration_s(self) -> Array:
        """Time until rest at the goal. Shape (axes,)."""
        last: Array = self.ends_s[:, -1]
        return last

    def at(self, times_s: Array) -> tuple[Array, Array, Array]:
        """Position, velocity and acceleration at times [s] >= 0; each of shape (axes, times)."""
        phase = np.sum(times_s[:, :, None] >= self.ends_s[:, None, :], axis=2)
        done = phase == PHASES
        phase = np.minimum(phase, PHASES - 1)
        starts = np.concatenate([np.zeros((len(self.goals), 1)), self.ends_s[:, :-1]], axis=1)
        t = times_s - np.take_along_axis(starts, phase, 1)
        jerk = np.take_along_axis(self.jerks, phase, 1)
        p, v, a = (np.take_along_axis(self.states[:, :, k], phase, 1) for k in range(3))
        position = p + t * (v + t * (a / 2 + t * jerk / 6))
        velocity = v + t * (a + t * jerk / 2)
        goals = np.broadcast_to(self.goals[:, None], position.shape)
        return (np.where(done, goals, position), np.where(done, 0.0, velocity),
                np.where(done, 0.0, a + t * jerk))

    def first_within(self, distance: Array, samples: int = 200) -> Array:
        """Time [s] from which on the axis stays within a distance of its goal. Shape (axes,)."""
        shares = np.linspace(0.0, 1.0, samples)
        positions, _, _ = self.at(self.duration_s[:, None] * shares)
        away = np.abs(positions - self.goals[:, None]) > np.reshape(distance, (-1, 1))
        last_away = np.where(away.any(1), samples - 1 - np.argmax(away[:, ::-1], axis=1), -1)
        since: Array = self.duration_s * shares[np.minimum(last_away + 1, samples - 1)]
        return since


def fastest(start: Array, goals: Array, limits: Array) -> MotionProfile:
    """Plan the fastest motions to rest.

    Args:
        start: position, velocity, acceleration. Shape (axes, 3).
        goals: final positions. Shape (axes,).
        limits: largest velocity, acceleration and jerk, all > 0. Shape (axes, 3).
    """
    durations, jerks = np.zeros((2, len(goals), PHASES))
    still = (np.abs(start[:, 0] - goals) < _STILL) & (np.abs(start[:, 1:]) < _STILL).all(1)
    planner, task, answer = ruckig.Ruckig(1), ruckig.InputParameter(1), ruckig.Trajectory(1)
    for axis in np.flatnonzero(~still):
        task.current_position, task.current_velocity, task.current_acceleration = (
            [float(value)] for value in start[axis])
        task.target_position = [float(goals[axis])]
        task.max_velocity, task.max_acceleration, task.max_jerk = (
            [float(value)] for value in limits[axis])
        planner.calculate(task, answer)
        profile = answer.profiles[0][0]
        durations[axis] = [*profile.brake.t, *profile.t]
        jerks[axis] = [*profile.brake.j, *profile.j]
    states = _states(start, durations, jerks)
    return MotionProfile(np.cumsum(durations, axis=1), jerks, states, goals.astype(np.float64))


def _states(start: Array, durations: Array, jerks: Array) -> Array:
    """State at the start of each phase. Shape (axes, phases, 3)."""
    states = np.empty((len(start), PHASES, 3))
    p, v, a = (start[:, k].astype(np.float64) for k in range(3))
    for phase in range(PHASES):
        states[:, phase] = np.stack([p, v, a], axis=1)
        t, jerk = durations[:, phase], jerks[:, phase]
        p = p + t * (v + t * (a / 2 + t * jerk / 6))
        v, a = v + t * (a + t * jerk / 2), a + t * jerk
    return states

# SPDX-License-Identifier: Apache-2.0
"""One tick toward a target under limits of velocity, acceleration and jerk; a brake at hand.

Wraps ruckig. Every joint moves on its own clock: a slow gripper holds no arm joint back. Knows
limits; nothing of where targets come from or of the workspace.

A target is followed through its speed: the speed of the target plus a share of the distance to it,
and ruckig finds the fastest way to that speed. Asking ruckig for position and speed together is
brittle: noise of 0.5 mrad on a smooth path of 1 rad made it leave the path by 0.5 rad, because a
joint that is a little ahead turns round to arrive with the right speed; this way it was 3 mrad.
"""

from dataclasses import dataclass
import math

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.manifest import Manifest
import ruckig

Array = NDArray[np.float64]

# Targets at the very limit of speed leave ruckig no room for rounding.
_HEADROOM = 0.98
# Share of the acceleration limit that the approach to a far target counts on for braking.
_APPROACH = 0.5


@dataclass(frozen=True, slots=True)
class Motion:
    """Commanded state at one tick: positions, velocities, accelerations, each (joints,)."""

    positions: Array
    velocities: Array
    accelerations: Array

    @classmethod
    def at_rest(cls, positions: Array) -> 'Motion':
        """Stand still, (joints,)."""
        zeros = np.zeros(len(positions))
        return cls(np.array(positions, dtype=np.float64), zeros, zeros)

    def mixed(self, other: 'Motion', mask: NDArray[np.bool_]) -> 'Motion':
        """Take the joints of ``mask`` (joints,) from another motion."""
        return Motion(
            np.where(mask, other.positions, self.positions),
            np.where(mask, other.velocities, self.velocities),
            np.where(mask, other.accelerations, self.accelerations),
        )


@dataclass(frozen=True, slots=True)
class Brake:
    """The fastest way to stand still: where it ends and how far each joint goes, (joints,)."""

    trajectory: ruckig.Trajectory
    end: Array
    lowest: Array
    highest: Array

    def at(self, time_s: float) -> Motion:
        """Return the motion after a time [s]; after the end the joints stay."""
        positions, velocities, accelerations = self.trajectory.at_time(time_s)
        return Motion(np.array(positions), np.array(velocities), np.array(accelerations))

    def path(self, period_s: float) -> Array:
        """Return the positions of every tick from the start to the end, (ticks, joints)."""
        count = math.ceil(self.trajectory.duration / period_s) + 1
        return np.array([self.trajectory.at_time(tick * period_s)[0] for tick in range(count)])


class JointLimiter:
    """Computes steps and brakes; keeps no state of the arm."""

    def __init__(self, manifest: Manifest, follow_gain_per_s: float) -> None:
        self._count = len(manifest.joints)
        self._period_s = manifest.control_period_s
        self._gain_per_s = follow_gain_per_s
        self._max_speed = _HEADROOM * manifest.column('max_velocity')
        self._approach = 2 * _APPROACH * manifest.column('max_acceleration')
        self._ruckig = ruckig.Ruckig(self._count, self._period_s)
        self._input = self._velocity_input(manifest)
        self._output = ruckig.OutputParameter(self._count)

    def toward(self, now: Motion, positions: Array, velocities: Array) -> Motion | None:
        """Return the motion one period later on the way to a moving target, each (joints,).

        None where no such way is found; the caller brakes then.
        """
        ahead = positions - (now.positions + now.velocities * self._period_s)
        distance = np.abs(ahead)
        catch_up = np.minimum(self._gain_per_s * distance, np.sqrt(self._approach * distance))
        speed = velocities + np.sign(ahead) * catch_up
        self._set(now, np.clip(speed, -self._max_speed, self._max_speed))
        try:
            if self._ruckig.update(self._input, self._output) < 0:
                return None
        except ruckig.RuckigError:
            return None
        return Motion(
            np.array(self._output.new_position),
            np.array(self._output.new_velocity),
            np.array(self._output.new_acceleration),
        )

    def brake(self, now: Motion) -> Brake | None:
        """Return the fastest way to stand still, or None where none is found."""
        self._set(now, np.zeros(self._count))
        trajectory = ruckig.Trajectory(self._count)
        try:
            if self._ruckig.calculate(self._input, trajectory) < 0:
                return None
        except ruckig.RuckigError:
            return None
        extrema = trajectory.position_extrema
        end, _, _ = trajectory.at_time(trajectory.duration)
        return Brake(
            trajectory,
            np.array(end),
            np.array([bound.min for bound in extrema]),
            np.array([bound.max for bound in extrema]),
        )

    def _velocity_input(self, manifest: Manifest) -> ruckig.InputParameter:
        """Return an input with the manifest's limits."""
        values = ruckig.InputParameter(self._count)
        values.control_interface = ruckig.ControlInterface.Velocity
        values.synchronization = ruckig.Synchronization.No
        values.max_velocity = manifest.column('max_velocity')
        values.max_acceleration = manifest.column('max_acceleration')
        values.max_jerk = manifest.column('max_jerk')
        return values

    def _set(self, now: Motion, speed: Array) -> None:
        """Set where the joints are and the speed that they are to reach, (joints,)."""
        self._input.current_position = now.positions
        self._input.current_velocity = now.velocities
        self._input.current_acceleration = now.accelerations
        self._input.target_velocity = speed

# SPDX-License-Identifier: Apache-2.0
"""Where the joints shall be at a time, from the newest trajectory or the newest single target.

Follows the rules of ROS 2's joint_trajectory_controller: a new trajectory replaces the old one
and starts from where the joints are wanted now; velocities in the points give cubic pieces,
without them the pieces are straight; after the last point it holds. Knows no ROS and no arm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sim.errors import CommandError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TrajectoryPoint:
    """One point of a trajectory.

    Attributes:
        time_s: time after the start of the trajectory.
        positions: one per joint name of the trajectory [rad], fingers [m].
        velocities: the same [rad/s], [m/s]; empty for straight pieces.
    """

    time_s: float
    positions: Sequence[float]
    velocities: Sequence[float] = ()


class TrajectoryFollower:
    """Holds one trajectory for a fixed list of joints.

    Attributes:
        joint_names: joints in the order of all arrays.
    """

    def __init__(self, joint_names: Sequence[str], positions: Sequence[float]) -> None:
        self.joint_names = tuple(joint_names)
        self.hold(positions)

    def hold(self, positions: Sequence[float]) -> None:
        """Forget the trajectory and stay at these positions (joints,)."""
        self._times = np.zeros(1)
        self._positions = np.array(positions, dtype=np.float64)[None]  # (points, joints)
        self._velocities = np.full_like(self._positions, np.nan)

    def replace(
        self, joint_names: Sequence[str], points: Sequence[TrajectoryPoint], start_s: float,
        now_s: float,
    ) -> None:
        """Follow these points from now on; joints that are not named stay where they are.

        Args:
            joint_names: joints of the points, any order, any subset.
            points: none at all means hold.
            start_s: time at which the times of the points begin.
            now_s: present time on the same clock.

        Raises:
            CommandError: unknown joint, wrong number of values, times that do not increase,
                values that are not finite. The trajectory before stays.
        """
        self._check(joint_names, points)
        here, speed = self._state(now_s)
        columns = [self.joint_names.index(name) for name in joint_names]
        ahead = [p for p in points if start_s + p.time_s > now_s] or list(points[-1:])
        positions = np.tile(here, (len(ahead) + 1, 1))
        velocities = np.full_like(positions, np.nan)
        velocities[0] = speed
        for row, point in enumerate(ahead, start=1):
            positions[row, columns] = point.positions
            if len(point.velocities):
                velocities[row] = 0.0
                velocities[row, columns] = point.velocities
        times = [now_s, *(start_s + p.time_s for p in ahead)]
        self._times = np.maximum(np.array(times), now_s)
        self._positions, self._velocities = positions, velocities

    def at(self, time_s: float) -> dict[str, float]:
        """Wanted positions by joint name [rad], fingers [m]."""
        positions, _ = self._state(time_s)
        return dict(zip(self.joint_names, map(float, positions), strict=True))

    def _state(self, time_s: float) -> tuple[Array, Array]:
        """Wanted positions and velocities (joints,) at a time."""
        times = self._times
        i = int(np.searchsorted(times, time_s, side='right')) - 1
        if i < 0 or i >= len(times) - 1:
            return self._positions[max(i, 0)].copy(), np.zeros(len(self.joint_names))
        span = times[i + 1] - times[i]
        u = (time_s - times[i]) / span
        p, q = self._positions[i], self._positions[i + 1]
        v, w = self._velocities[i] * span, self._velocities[i + 1] * span
        straight = np.isnan(v) | np.isnan(w)
        v, w = np.where(straight, q - p, v), np.where(straight, q - p, w)
        c, d = 3 * (q - p) - 2 * v - w, 2 * (p - q) + v + w
        return p + u * (v + u * (c + u * d)), (v + u * (2 * c + 3 * u * d)) / span

    def _check(self, joint_names: Sequence[str], points: Sequence[TrajectoryPoint]) -> None:
        for name in joint_names:
            if name not in self.joint_names:
                raise CommandError('joint', name, self.joint_names)
        if len(set(joint_names)) != len(joint_names):
            raise CommandError('joint names', list(joint_names), 'each joint once')
        count, before = len(joint_names), -1.0
        for point in points:
            if len(point.positions) != count or len(point.velocities) not in (0, count):
                sizes = len(point.positions), len(point.velocities)
                raise CommandError('values per point', sizes, f'{count} (velocities also 0)')
            if not np.isfinite([*point.positions, *point.velocities]).all():
                raise CommandError('point', list(point.positions), 'finite numbers')
            if point.time_s <= before:
                raise CommandError('time_from_start', point.time_s, f'more than {before}')
            before = point.time_s


def check_values(joint_names: Sequence[str], values: Sequence[float]) -> None:
    """Check a forward position command, which carries no names.

    Raises:
        CommandError: wrong number of values or values that are not finite.
    """
    if len(values) != len(joint_names):
        raise CommandError('number of positions', len(values), f'{len(joint_names)}')
    if not np.isfinite(values).all():
        raise CommandError('positions', list(values), 'finite numbers')

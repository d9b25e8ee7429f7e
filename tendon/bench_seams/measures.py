# SPDX-License-Identifier: Apache-2.0
"""What is measured of a path: jerk, acceleration, steps at the seams, distance to the signal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tendon.bench_seams.stream import CHANGE_RAD, PERIOD_S, Stream

Array = NDArray[np.float64]

_SETTLED = 100  # ticks that are left out at the start: the first chunk, and the way to it


@dataclass(frozen=True, slots=True)
class Smoothness:
    """One path.

    Attributes:
      jerk_rms: root mean square of the third differences [rad/s^3].
      acceleration_max: largest second difference [rad/s^2].
      track_rmse: root mean square distance to the clean signal [rad].
      seam_step_max: largest change of the velocity from one tick to the next [rad/s], where a
        chunk takes over.
    """

    jerk_rms: float
    acceleration_max: float
    track_rmse: float
    seam_step_max: float


def smoothness(path: Array, stream: Stream) -> Smoothness:
    """Measure a path (ticks, joints)."""
    settled, wanted = path[_SETTLED:], stream.wanted[_SETTLED:]
    change = np.diff(settled, 2, axis=0)
    jerk = np.diff(settled, 3, axis=0) / PERIOD_S**3
    seams = np.array([
        entry.came - _SETTLED for entry in stream.arrivals
        if _SETTLED + 2 <= entry.came < len(path)
    ])
    return Smoothness(
        jerk_rms=float(np.sqrt((jerk**2).mean())),
        acceleration_max=float(np.abs(change).max()) / PERIOD_S**2,
        track_rmse=float(np.sqrt(((settled - wanted) ** 2).mean())),
        seam_step_max=float(np.abs(change[seams - 2]).max()) / PERIOD_S,
    )


def reaction_s(path: Array, stream: Stream) -> float:
    """Return how long after a change of mind half of it has been done [s]."""
    changed = int(np.argmax(stream.wanted[:, 0] > 0))
    done = path[changed:, 0] >= CHANGE_RAD / 2
    return float(np.argmax(done)) * PERIOD_S if done.any() else float('inf')

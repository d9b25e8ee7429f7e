# SPDX-License-Identifier: Apache-2.0
"""A plan buffer for two joints, targets to offer it, and what it plays of them."""

import numpy as np
from onboard_decoder.joint_limiter import Motion
from onboard_decoder.plan_buffer import PlanBuffer

N = 2
PERIOD_S = 0.02
STILL = Motion.at_rest(np.zeros(N))


def buffer(fade=5, age=50):
    """An empty buffer for two joints."""
    return PlanBuffer(N, PERIOD_S, fade, age)


def ramp(first, count=50, slope=0.01, start=0.0):
    """Targets that depend on the tick alone: start + slope * tick."""
    ticks = np.arange(first, first + count)[:, None]
    return np.repeat(start + slope * ticks, N, axis=1)


def swing(ticks):
    """Smooth targets of ticks: a slow sine, (ticks, joints)."""
    return np.repeat(0.4 * np.sin(0.05 * np.asarray(ticks))[:, None], N, axis=1)


def motion(positions, velocities=0.0):
    """Commanded so; velocities in units per tick."""
    return Motion(
        np.full(N, positions), np.full(N, velocities) / PERIOD_S, np.zeros(N))


def play(plays, ticks, start=STILL):
    """Return the targets of ticks, commanded as they came, (ticks, joints)."""
    last, path = start, []
    for tick in ticks:
        target = plays.sample(tick, last)
        assert target is not None
        last = Motion(target.positions, target.velocities, np.zeros(N))
        path.append(target.positions)
    return np.array(path)

# SPDX-License-Identifier: Apache-2.0
"""The chunks that every rule is given: where they lead, when each was asked for and when it came.

Seven joints swing by 0.5 rad at 0.3 Hz. Each chunk is off by N(0, 20 mrad) and slopes away by
N(0, 20 mrad/s) per joint, as a policy is that makes up its mind anew each time. The next chunk is
asked for when the last one comes. Knows no rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

JOINTS = 7
HORIZON = 50
PERIOD_S = 0.02
AMPLITUDE_RAD = 0.5
FREQUENCY_HZ = 0.3
OFFSET_RAD = 0.02
SLOPE_RAD_S = 0.02
CHANGE_RAD = 0.1


@dataclass(frozen=True, slots=True)
class Arrival:
    """One chunk: asked for at a tick, there at a later one; ``rows`` is (horizon, joints).

    Row i is for the tick ``asked + i``.
    """

    asked: int
    came: int
    rows: Array


Policy = Callable[[int], Array]  # the tick that it is asked at to rows


@dataclass(frozen=True, slots=True)
class Stream:
    """A policy that takes ``delay_ticks``, asked back to back.

    Attributes:
      delay_ticks: from the question to the chunk.
      wanted: what the policy is about, (ticks, joints).
      policy: gives the rows for a question at any tick.
      arrivals: what comes where the next question follows each answer, in order.
    """

    delay_ticks: int
    wanted: Array
    policy: Policy
    arrivals: tuple[Arrival, ...]

    def coming(self, tick: int) -> list[Arrival]:
        """Return what comes at a tick: one chunk or none."""
        return [entry for entry in self.arrivals if entry.came == tick]


def swing(delay_ticks: int, tick_count: int, seed: int) -> Stream:
    """Return chunks of the swing that disagree."""
    def policy(asked: int) -> Array:
        rng = np.random.default_rng((seed, asked))
        offset = rng.normal(0, OFFSET_RAD, JOINTS)
        slope = rng.normal(0, SLOPE_RAD_S, JOINTS)
        away = slope * PERIOD_S * np.arange(HORIZON)[:, None]
        return swinging(asked + np.arange(HORIZON)) + offset + away

    return _asked(policy, delay_ticks, swinging(np.arange(tick_count)))


def change(delay_ticks: int, tick_count: int) -> Stream:
    """Return chunks that agree, until in the middle the policy wants to be elsewhere at once."""
    wanted = np.zeros((tick_count, JOINTS))
    wanted[tick_count // 2 // delay_ticks * delay_ticks:] = CHANGE_RAD
    return _asked(lambda asked: np.tile(wanted[asked], (HORIZON, 1)), delay_ticks, wanted)


def swinging(ticks: NDArray[np.integer]) -> Array:
    """Return the clean signal, (ticks, joints)."""
    phases = 2 * np.pi * np.arange(JOINTS) / JOINTS
    angle = 2 * np.pi * FREQUENCY_HZ * PERIOD_S * np.asarray(ticks)[:, None]
    return np.asarray(AMPLITUDE_RAD * np.sin(angle + phases))


def _asked(policy: Policy, delay_ticks: int, wanted: Array) -> Stream:
    arrivals = tuple(
        Arrival(asked, asked + delay_ticks, policy(asked))
        for asked in range(0, len(wanted), delay_ticks)
    )
    return Stream(delay_ticks, wanted, policy, arrivals)

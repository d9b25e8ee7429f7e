# SPDX-License-Identifier: Apache-2.0
"""A chunk of joint targets, and one target of it.

Knows rows at the control period and by which consumed tick each is due; nothing of plans, limits
or of what plays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.chunk_blend import Course

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Joint targets of consecutive ticks.

    ``positions[0]`` is due when ``first_tick`` ticks have been consumed; ``state_tick`` is the
    tick of the loop that it was computed at. ``positions`` is (horizon, joints). ``epoch`` is the
    buffer's when the computation began: what happened since may have made the chunk worthless.
    """

    number: int
    state_tick: int
    first_tick: float
    positions: Array
    epoch: int = 0

    @property
    def last_tick(self) -> float:
        """Consumed ticks by which the last row is due."""
        return self.first_tick + len(self.positions) - 1

    def at(self, consumed: NDArray[np.floating] | float) -> Array:
        """Return the targets (..., joints) when so many ticks have been consumed; ends hold."""
        index = np.clip(np.asarray(consumed) - self.first_tick, 0, len(self.positions) - 1)
        whole = np.floor(index).astype(int)
        share = (index - whole)[..., None]
        following = np.minimum(whole + 1, len(self.positions) - 1)
        return np.asarray(
            (1 - share) * self.positions[whole] + share * self.positions[following]
        )

    def course(self, consumed: float) -> Course:
        """Return where it leads at a moment, from the three rows around it; ends go on."""
        if len(self.positions) < 3:
            slope = self.positions[-1] - self.positions[0]
            first = Course(self.positions[0], slope, np.zeros_like(slope))
            return first.moved(consumed - self.first_tick)
        middle = min(max(consumed, self.first_tick + 1), self.last_tick - 1)
        before, now, after = self.at(np.array([middle - 1, middle, middle + 1]))
        at_middle = Course(now, (after - before) / 2, before - 2 * now + after)
        return at_middle.moved(consumed - middle)


@dataclass(frozen=True, slots=True)
class Target:
    """Where the joints should be at one tick and how fast, (joints,), and from which chunk.

    ``heading`` is the velocity in the chunk, before the pace scales it.
    """

    positions: Array
    velocities: Array
    chunk_number: int
    consumed: float = 0.0
    heading: Array | None = None

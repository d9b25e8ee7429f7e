# SPDX-License-Identifier: Apache-2.0
"""The chunk that is being played: aligned by ticks, cross-faded, expired.

Chunks are placed by how many ticks have been consumed, not by the clock: a late chunk loses what
was consumed meanwhile, and an arm that cannot follow consumes slower (``pace``), so nothing is
skipped. Knows joint targets; nothing of plans, decoders or limits. The thread that decodes hands
chunks over by ``offer``; only the command loop calls ``sample``.
"""

from collections import deque
from dataclasses import dataclass
import math

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.errors import ChunkRefused

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Joint targets of consecutive ticks.

    ``positions[0]`` is due when ``first_tick`` ticks have been consumed; ``state_tick`` is the
    tick of the loop that it was computed at, for its age. ``positions`` is (horizon, joints).
    """

    number: int
    state_tick: int
    first_tick: float
    positions: Array

    def at(self, consumed: NDArray[np.floating] | float) -> Array:
        """Return the targets (..., joints) when so many ticks have been consumed; ends hold."""
        index = np.clip(np.asarray(consumed) - self.first_tick, 0, len(self.positions) - 1)
        whole = np.floor(index).astype(int)
        share = (index - whole)[..., None]
        following = np.minimum(whole + 1, len(self.positions) - 1)
        return np.asarray(
            (1 - share) * self.positions[whole] + share * self.positions[following]
        )


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


class PlanBuffer:
    """Plays chunks tick by tick."""

    def __init__(
        self, joint_count: int, period_s: float, fade_ticks: int, max_age_ticks: int
    ) -> None:
        self._joint_count, self._period_s = joint_count, period_s
        self._fade_ticks, self._max_age_ticks = fade_ticks, max_age_ticks
        self._offered: deque[Chunk] = deque(maxlen=1)  # the only thing that both threads write
        self._waiting: Chunk | None = None
        self._playing: Chunk | None = None
        self._cleared = False
        self.played: Target | None = None  # of the last tick; read by whoever plans on
        self.refused_count = 0

    def offer(self, chunk: Chunk) -> None:
        """Hand a chunk over; it is taken up at the next tick that it covers.

        Raises:
          ChunkRefused: for another width or a value that is not finite.
        """
        shape = chunk.positions.shape
        if len(shape) != 2 or shape[1] != self._joint_count or shape[0] < 2:
            self.refused_count += 1
            raise ChunkRefused(f'shape {shape}; it must be (2 or more, {self._joint_count})')
        if not np.isfinite(chunk.positions).all():
            self.refused_count += 1
            raise ChunkRefused(f'chunk {chunk.number} has values that are not finite')
        self._offered.append(chunk)

    def clear(self) -> None:
        """Drop what is playing and what was offered."""
        self._offered.clear()
        self._cleared, self.played = True, None

    def sample(
        self, tick: int, last_command: Array, consumed: float | None = None, pace: float = 1.0
    ) -> Target | None:
        """Return the target of a tick, or None where there is nothing valid.

        Args:
          tick: number of the tick.
          last_command: what was commanded at the tick before, (joints,).
          consumed: ticks consumed so far; the number of the tick where the arm always followed.
          pace: how much of a tick is consumed per tick now, 0 to 1; scales the velocity.
        """
        consumed = float(tick) if consumed is None else consumed
        if self._cleared:
            self._playing, self._waiting, self._cleared = None, None, False
        try:
            self._waiting = self._offered.popleft()
        except IndexError:
            pass
        if self._waiting is not None and consumed >= self._waiting.first_tick:
            self._playing = self._merged(self._waiting, tick, consumed, last_command)
            self._waiting = None
        if self._playing is None or not self._is_valid(self._playing, tick, consumed):
            self._playing = self.played = None
            return None
        self.played = self._target(self._playing, consumed, pace)
        return self.played

    def upcoming(self, first: float, count: int) -> Array | None:
        """Return what is being played, (count, joints), from ``first`` consumed ticks on.

        Behind the end the last row is repeated. None where nothing valid covers ``first``. May be
        called by the thread that decodes.
        """
        chunk, played = self._playing, self.played
        if chunk is None or played is None or self._cleared or first < chunk.first_tick:
            return None
        if first - chunk.first_tick >= len(chunk.positions):
            return None
        return chunk.at(first + np.arange(count))

    def _is_valid(self, chunk: Chunk, tick: int, consumed: float) -> bool:
        """Neither played through nor made from joints of long ago."""
        is_left = consumed - chunk.first_tick < len(chunk.positions)
        return is_left and tick - chunk.state_tick <= self._max_age_ticks

    def _merged(
        self, new: Chunk, tick: int, consumed: float, last_command: Array
    ) -> Chunk | None:
        """Fade from what is playing, or from the last command, into the new chunk.

        The targets of ticks that were consumed while the chunk was on its way are left out.
        """
        if not self._is_valid(new, tick, consumed):
            return self._playing
        left = math.ceil(len(new.positions) - (consumed - new.first_tick))
        moments = consumed + np.arange(left)
        positions = new.at(moments)
        count = min(self._fade_ticks, left)
        weights = _smooth_step(np.arange(1, count + 1) / (self._fade_ticks + 1))[:, None]
        old = self._playing
        if old is None or not self._is_valid(old, tick, consumed):
            tail = np.tile(last_command, (count, 1))
        else:
            tail = old.at(moments[:count])
        positions[:count] = (1 - weights) * tail + weights * positions[:count]
        return Chunk(new.number, new.state_tick, consumed, positions)

    def _target(self, chunk: Chunk, consumed: float, pace: float) -> Target:
        """Return position and, from the neighbours, velocity."""
        last = chunk.first_tick + len(chunk.positions) - 1
        before, after = max(consumed - 1, chunk.first_tick), min(consumed + 1, last)
        if consumed >= last:
            heading = np.zeros(self._joint_count)  # nothing follows: come to rest
        else:
            difference = chunk.at(after) - chunk.at(before)
            heading = difference / ((after - before) * self._period_s)
        return Target(chunk.at(consumed), pace * heading, chunk.number, consumed, heading)


def _smooth_step(x: Array) -> Array:
    """Quintic from 0 to 1 with zero first and second derivative at both ends."""
    return np.asarray(10 * x**3 - 15 * x**4 + 6 * x**5)

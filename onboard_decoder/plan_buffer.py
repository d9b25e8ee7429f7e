# SPDX-License-Identifier: Apache-2.0
"""The chunk that is being played: aligned by ticks, cross-faded, expired.

Knows ticks and joint targets; nothing of plans, decoders or limits. The thread that decodes hands
chunks over by ``offer``; only the command loop calls ``sample``.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.errors import ChunkRefused

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Joint targets of consecutive ticks.

    ``positions[0]`` is the target of tick ``first_tick``; ``state_tick`` is the tick whose joints
    it was computed from. ``positions`` is (horizon, joints).
    """

    number: int
    state_tick: int
    first_tick: int
    positions: Array


@dataclass(frozen=True, slots=True)
class Target:
    """Where the joints should be at one tick, (joints,), how fast, and from which chunk."""

    positions: Array
    velocities: Array
    chunk_number: int


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

    def sample(self, tick: int, last_command: Array) -> Target | None:
        """Return the target of a tick, or None where there is nothing valid.

        Args:
          tick: number of the tick.
          last_command: what was commanded at the tick before, (joints,).
        """
        if self._cleared:
            self._playing, self._waiting, self._cleared = None, None, False
        try:
            self._waiting = self._offered.popleft()
        except IndexError:
            pass
        if self._waiting is not None and tick >= self._waiting.first_tick:
            self._playing = self._merged(self._waiting, tick, last_command)
            self._waiting = None
        if self._playing is None or not self._is_valid(self._playing, tick):
            self._playing = self.played = None
            return None
        self.played = self._target(self._playing, tick - self._playing.first_tick)
        return self.played

    def _is_valid(self, chunk: Chunk, tick: int) -> bool:
        """Neither played through nor made from joints of long ago."""
        index = tick - chunk.first_tick
        return index < len(chunk.positions) and tick - chunk.state_tick <= self._max_age_ticks

    def _merged(self, new: Chunk, tick: int, last_command: Array) -> Chunk | None:
        """Fade from what is playing, or from the last command, into the new chunk.

        The targets of ticks that passed while the chunk was on its way are left out.
        """
        if not self._is_valid(new, tick):
            return self._playing
        positions = new.positions[tick - new.first_tick:].copy()
        count = min(self._fade_ticks, len(positions))
        weights = _smooth_step(np.arange(1, count + 1) / (self._fade_ticks + 1))[:, None]
        old = self._continued(tick, count, last_command)
        positions[:count] = (1 - weights) * old + weights * positions[:count]
        return Chunk(new.number, new.state_tick, tick, positions)

    def _continued(self, tick: int, count: int, last_command: Array) -> Array:
        """Return what the coming ticks would get without the new chunk, (count, joints)."""
        old = self._playing
        if old is None or not self._is_valid(old, tick):
            return np.tile(last_command, (count, 1))
        tail = old.positions[tick - old.first_tick:][:count]
        return np.concatenate([tail, np.tile(tail[-1], (count - len(tail), 1))])

    def _target(self, chunk: Chunk, index: int) -> Target:
        """Return position and, from the neighbours, velocity."""
        before, after = max(index - 1, 0), min(index + 1, len(chunk.positions) - 1)
        difference = chunk.positions[after] - chunk.positions[before]
        velocities = difference / (max(after - before, 1) * self._period_s)
        if index == len(chunk.positions) - 1:
            velocities = np.zeros(self._joint_count)  # nothing follows: come to rest
        return Target(chunk.positions[index], velocities, chunk.number)


def _smooth_step(x: Array) -> Array:
    """Quintic from 0 to 1 with zero first and second derivative at both ends."""
    return np.asarray(10 * x**3 - 15 * x**4 + 6 * x**5)

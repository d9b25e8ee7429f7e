# SPDX-License-Identifier: Apache-2.0
"""The state in which a new chunk takes over: rolled forward by what is committed already.

While a chunk is computed the old one is played on. Those rows are certain: they are the new
chunk's frozen prefix, and the new motion begins where they end, with their speed and acceleration.
(J. Tang et al.: VLASH, 2025, arXiv 2512.01031, calls it future-state awareness.) What a decoder is
off there is faded out, so that no step hides behind the prefix. Knows rows of joint targets;
nothing of networks or plans.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.chunk import Chunk
from onboard_decoder.chunk_blend import Course, fading, Steepest
from onboard_decoder.errors import ChunkRefused

Array = NDArray[np.float64]

_APART = 1e-6   # [rad], [m]: a joint farther than this from the tail does not follow it
_MOVED = 1e-3   # [rad], [m]: less is rest
_FADE_TICKS = 2
_FADE_SHARE = 1.0   # of each limit: a longer fade would come late where the motion brakes


@dataclass(frozen=True, slots=True)
class Takeover:
    """Where and how a new motion begins.

    Attributes:
      joints: positions (joints,).
      velocities: the same, per second.
      accelerations: per second squared (joints,); None where nobody knows.
      delay_s: from this state to one period before the motion's first row.
      tail: what the old chunk would do instead, (horizon, joints); None where nothing plays.
      course: where the frozen rows lead; None where there are none.
      moving_s: how long the arm still moves until then [s].
    """

    joints: Array
    velocities: Array
    accelerations: Array | None
    delay_s: float
    tail: Array | None
    course: Course | None = None
    moving_s: float = 0.0

    def anchored(self, rows: Array, steepest: Steepest) -> Array:
        """Let a motion begin where the frozen rows lead; what it is off there fades out.

        Args:
          rows: the first is due one period after the takeover, (horizon, joints).
          steepest: limits of the arm; fingers, which have none, are left alone.
        """
        if self.course is None:
            return rows
        limits = steepest.velocities, steepest.accelerations
        begun = Chunk(0, 0, 0.0, rows).course(-1.0)
        offset = self.course.clipped(*limits).off(begun.clipped(*limits))
        ticks = steepest.fade_ticks(offset, _FADE_SHARE, _FADE_TICKS)
        return rows + np.isfinite(steepest.jerks) * fading(offset, ticks, len(rows))


def without_tail(joints: Array, velocities: Array, delay_s: float) -> Takeover:
    """Begin at the measured state, (joints,) each."""
    return Takeover(joints, velocities, None, delay_s, None)


def behind_tail(
    joints: Array, velocities: Array, delay_s: float, tail: Array, period_s: float, horizon: int
) -> Takeover:
    """Roll the state forward along the tail.

    Args:
      joints: positions now, (joints,). A joint that is where the tail's row 0 leads is rolled
        forward; one that is not, such as a finger that a thing stops, stays where it is.
      velocities: the same, per second.
      delay_s: how long the tail is still played.
      tail: rows from now on, (1 or more, joints); behind its end the last row counts.
      period_s: from one row to the next.
      horizon: rows that a motion has.

    Raises:
      ChunkRefused: the tail has another width, no row, or values that are not finite.
    """
    rows = np.asarray(tail, dtype=np.float64)
    if rows.ndim != 2 or len(rows) == 0 or rows.shape[1] != len(joints):
        raise ChunkRefused(f'the tail has shape {rows.shape}; it must be (ticks, {len(joints)})')
    if not np.isfinite(rows).all():
        raise ChunkRefused('the tail has values that are not finite')
    count = 1 + round(delay_s / period_s)
    missing = max(count + horizon - len(rows), 0)
    rows = np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)])
    course = Chunk(0, 0, 0.0, rows).course(count - 1)
    follows = np.abs(joints - rows[0]) < _APART
    return Takeover(
        np.where(follows, rows[count - 1], joints),
        np.where(follows, course.velocities / period_s, velocities),
        np.where(follows, course.accelerations / period_s**2, 0.0),
        0.0, rows[count:count + horizon],
        course, delay_s if np.ptp(rows[:count], axis=0).max() > _MOVED else 0.0,
    )

# SPDX-License-Identifier: Apache-2.0
"""The chunk that is being played: aligned by ticks, faded in, expired.

Chunks are placed by how many ticks have been consumed, not by the clock: a late chunk loses what
was consumed meanwhile, and an arm that cannot follow consumes slower (``pace``), so nothing is
skipped. What becomes of a chunk:

  early          waits until its first tick; where nothing plays, it is played at once
  late           the rows that were consumed meanwhile are left out
  too late       dropped: nothing of it is left, or it was under way longer than it lasts
  overlapping    the newest that is due plays; its offset to what was played fades out
  out of order   dropped: made from older joints than one that plays or waits
  old epoch      dropped: made before the last ``clear``
  none follows   the last one ends with its last row, or ``max_age_ticks`` after the tick at which
                 the next should have come if it is under way as long as this one was

Knows joint targets; nothing of plans or decoders. The thread that decodes hands chunks over by
``offer``; only the command loop calls ``sample``; anybody may call ``clear``.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace
from itertools import count as counting
import math

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.chunk import Chunk, Target
from onboard_decoder.chunk_blend import Course, fading, Steepest
from onboard_decoder.config import ChunkSettings
from onboard_decoder.errors import ChunkRefused
from onboard_decoder.joint_limiter import Motion
from onboard_decoder.manifest import Manifest

Array = NDArray[np.float64]

DROPPED = ('refused', 'too_late', 'out_of_order', 'old_epoch')
_MOST_OFFERED = 8  # between two ticks


class PlanBuffer:
    """Plays chunks tick by tick.

    Attributes:
      epoch: grows with each ``clear``; read it before a chunk is computed.
      counts: chunks that were not played, by one of the words of ``DROPPED``.
    """

    def __init__(
        self,
        joint_count: int,
        period_s: float,
        fade_ticks: int,
        max_age_ticks: int,
        steepest: Steepest | None = None,
        fade_share: float = 0.7,
    ) -> None:
        """Play nothing yet.

        Args:
          joint_count: width of a chunk.
          period_s: the control period [s].
          fade_ticks: ticks in which the offset to what was played before fades out at least.
          max_age_ticks: how long a chunk is played where no newer one takes over, besides as
            long as it was under way.
          steepest: limits of the arm; none where None.
          fade_share: share of them that a fade may take; a larger offset fades longer.
        """
        self._joint_count, self._period_s = joint_count, period_s
        self._fade_ticks, self._max_age_ticks = fade_ticks, max_age_ticks
        self._steepest = steepest or Steepest.unbounded(joint_count)
        self._fade_share = fade_share
        # What several threads write is replaced as a whole, or a deque.
        self._offered: deque[Chunk] = deque(maxlen=_MOST_OFFERED)
        self._waiting: tuple[Chunk, ...] = ()
        self._playing: Chunk | None = None
        self._until_tick = 0
        self._played: tuple[int, Target] | None = None
        self._epochs = counting(1)
        self.epoch = 0
        self.counts = Counter(dict.fromkeys(DROPPED, 0))

    @classmethod
    def of(cls, manifest: Manifest, settings: ChunkSettings) -> PlanBuffer:
        """Return that of a robot."""
        period_s = manifest.control_period_s
        return cls(
            len(manifest.joints), period_s, settings.fade_ticks,
            max(2, round(settings.chunk_max_age_s / period_s)),
            Steepest.of(manifest), settings.fade_share,
        )

    @property
    def played(self) -> Target | None:
        """Target of the last tick, read by whoever plans on; None where nothing plays."""
        played = self._played
        return played[1] if played and played[0] == self.epoch else None

    def offer(self, chunk: Chunk) -> None:
        """Hand a chunk over; it is taken up at the next tick that it covers.

        Raises:
          ChunkRefused: for another width or a value that is not finite.
        """
        shape = chunk.positions.shape
        if len(shape) != 2 or shape[1] != self._joint_count or shape[0] < 2:
            self.counts['refused'] += 1
            raise ChunkRefused(f'shape {shape}; it must be (2 or more, {self._joint_count})')
        if not np.isfinite(chunk.positions).all():
            self.counts['refused'] += 1
            raise ChunkRefused(f'chunk {chunk.number} has values that are not finite')
        self._offered.append(chunk)

    def clear(self) -> None:
        """Drop what is playing, what was offered, and what is still being computed."""
        self.epoch = next(self._epochs)

    def sample(
        self, tick: int, last: Motion, consumed: float | None = None, pace: float = 1.0
    ) -> Target | None:
        """Return the target of a tick, or None where there is nothing valid.

        Args:
          tick: number of the tick.
          last: what was commanded at the tick before.
          consumed: ticks consumed so far; the number of the tick where the arm always followed.
          pace: how much of a tick is consumed per tick now, 0 to 1; scales the velocity.
        """
        consumed = float(tick) if consumed is None else consumed
        epoch = self.epoch
        playing = self._playing
        if playing is not None and not self._is_valid(playing, epoch, tick, consumed):
            playing = None
        self._waiting = self._sorted_in(epoch, playing)
        new = self._taken_up(playing, tick, consumed)
        if new is not None:
            playing = self._faded_in(new, playing, consumed, last)
            self._until_tick = tick + (tick - new.state_tick) + self._max_age_ticks
        self._playing = playing
        if playing is None:
            self._played = None
            return None
        target = self._target(playing, consumed, pace)
        self._played = epoch, target
        return target

    def upcoming(self, first: float, count: int) -> Array | None:
        """Return what will be played, (count, joints), from ``first`` consumed ticks on.

        Behind the end the last row is repeated. None where nothing valid covers ``first``. May be
        called by the thread that decodes.
        """
        if self.played is None:
            return None
        playing, moments = self._playing, first + np.arange(count)
        known = self._waiting if playing is None else (playing, *self._waiting)
        for chunk in reversed(known):  # the newest that will be due by then
            if chunk.first_tick <= first < chunk.last_tick + 1 and chunk.epoch == self.epoch:
                return chunk.at(moments)
        return None

    def _is_valid(self, chunk: Chunk, epoch: int, tick: int, consumed: float) -> bool:
        """Neither played through, nor played for too long, nor dropped."""
        is_left = consumed < chunk.last_tick + 1
        return is_left and chunk.epoch == epoch and tick <= self._until_tick

    def _sorted_in(self, epoch: int, playing: Chunk | None) -> tuple[Chunk, ...]:
        """Return the chunks that wait, by first tick, with those that were offered."""
        waiting = [chunk for chunk in self._waiting if chunk.epoch == epoch]
        while self._offered:
            new = self._offered.popleft()
            if new.epoch != epoch:
                self.counts['old_epoch'] += 1
                continue
            newest = waiting[-1] if waiting else playing
            if newest is not None and new.state_tick < newest.state_tick:
                self.counts['out_of_order'] += 1
                continue
            waiting = [chunk for chunk in waiting if chunk.first_tick < new.first_tick]
            waiting.append(new)
        return tuple(waiting)

    def _taken_up(self, playing: Chunk | None, tick: int, consumed: float) -> Chunk | None:
        """Take the newest chunk that is due; the next one where nothing plays."""
        while self._waiting:
            due = [chunk for chunk in self._waiting if chunk.first_tick <= consumed]
            if due:
                new = due[-1]
            elif playing is None:
                new = replace(self._waiting[0], first_tick=consumed)
            else:
                return None
            self._waiting = self._waiting[max(len(due), 1):]
            was_under_way = tick - new.state_tick
            if consumed < new.last_tick + 1 and was_under_way <= len(new.positions):
                return new
            self.counts['too_late'] += 1
        return None

    def _faded_in(
        self, new: Chunk, old: Chunk | None, consumed: float, last: Motion
    ) -> Chunk:
        """Return what is left of a chunk, starting where the arm is led now.

        Its row 0 is where the arm was led at the tick before.
        """
        before = consumed - 1
        led = self._clipped(old.course(before) if old else self._course_of(last))
        offset = led.off(self._clipped(new.course(before)))
        ticks = self._steepest.fade_ticks(offset, self._fade_share, self._fade_ticks)
        left = math.ceil(new.last_tick + 1 - consumed)
        rows = new.at(consumed + np.arange(left)) + fading(offset, ticks, left)
        rows = np.concatenate([led.positions[None], rows])
        return replace(new, first_tick=before, positions=rows)

    def _clipped(self, course: Course) -> Course:
        """Leave out what no arm can do; a broken chunk would throw the targets about."""
        return course.clipped(self._steepest.velocities, self._steepest.accelerations)

    def _course_of(self, last: Motion) -> Course:
        """Return what was commanded at the tick before."""
        return Course(
            last.positions, last.velocities * self._period_s,
            last.accelerations * self._period_s**2,
        )

    def _target(self, chunk: Chunk, consumed: float, pace: float) -> Target:
        """Return position and, from the neighbours, velocity."""
        before, after = max(consumed - 1, chunk.first_tick), min(consumed + 1, chunk.last_tick)
        start, positions, end = chunk.at(np.array([before, consumed, after]))
        if consumed >= chunk.last_tick:
            heading = np.zeros(self._joint_count)  # nothing follows: come to rest
        else:
            heading = (end - start) / ((after - before) * self._period_s)
        return Target(positions, pace * heading, chunk.number, consumed, heading)

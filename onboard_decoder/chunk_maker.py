# SPDX-License-Identifier: Apache-2.0
"""Runs the decoder and hands the chunk over, labelled with ticks.

A chunk goes on from the target that is being played, so that consecutive chunks agree: planning
from measured joints would plan the lag of filter and arm again at each chunk, and swing. Fingers
that are not where they should be (a thing is between them) count as measured; an arm that lags is
waited for (``pace``).
Predicts at which tick the chunk can be used first, from how long the decoder took of late. Until
then what is being played is committed: the decoder is given it and begins behind it. A chunk that
takes longer, or longer than the decoder was trained for, is played all the same: the buffer
leaves out what was consumed meanwhile and fades the rest in, and it is counted. Knows no plan.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
import math

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.chunk import Chunk, Target
from onboard_decoder.clock import Clock, NS_PER_S, to_ns
from onboard_decoder.config import ChunkSettings
from onboard_decoder.decoder_port import DecoderPort
from onboard_decoder.joint_limiter import Motion
from onboard_decoder.manifest import Manifest
from onboard_decoder.observation_intake import JointState
from onboard_decoder.plan import PlanStep
from onboard_decoder.plan_buffer import PlanBuffer

Array = NDArray[np.float64]

_TAIL_TICKS = 50  # as far as a new chunk may be led along the old one


@dataclass(frozen=True, slots=True)
class TickStamp:
    """Number of a tick, when it was, and how many ticks' worth of chunk were consumed by then."""

    number: int
    time_ns: int
    consumed: float


@dataclass(frozen=True, slots=True)
class Made:
    """A chunk that was handed over: what is left of the step, and when it was made."""

    number: int
    remaining_s: float
    started_ns: int
    ended_ns: int


class ChunkMaker:
    """Makes chunks, one after the other."""

    def __init__(
        self,
        decoder: DecoderPort,
        buffer: PlanBuffer,
        clock: Clock,
        manifest: Manifest,
        settings: ChunkSettings,
    ) -> None:
        self._decoder, self._buffer, self._clock = decoder, buffer, clock
        self._period_ns = to_ns(manifest.control_period_s)
        self._finger = manifest.gripper_index
        self._finger_off = settings.finger_off_s * manifest.joints[self._finger].max_velocity
        self._slow_ns = to_ns(settings.decode_slow_s)
        self._durations_ns: deque[int] = deque(maxlen=settings.decode_window)
        self._number = 0
        self._was_late = False
        self.slow_count = 0
        self.late_count = 0

    @property
    def expected_ns(self) -> int:
        """How long the next run may take [ns]: the longest of the last ones."""
        return max(self._durations_ns, default=0)

    @property
    def is_slow(self) -> bool:
        """True if the newest run was too slow, or took longer than was counted on."""
        return self._was_late or (
            bool(self._durations_ns) and self._durations_ns[-1] > self._slow_ns
        )

    def make(
        self,
        step: PlanStep,
        latent: Sequence[float],
        joints: JointState,
        motion: Motion,
        tick: TickStamp,
    ) -> Made:
        """Decode and hand over.

        Args:
          step: what to do.
          latent: from the backbone.
          joints: measured, the newest.
          motion: commanded at ``tick``.
          tick: the newest.

        Raises:
          ChunkRefused: if the decoder's output is unusable.
        """
        started_ns = self._clock.now_ns()
        epoch, played = self._buffer.epoch, self._buffer.played
        # Where nothing plays the arm waits for the chunk, however long that takes.
        ahead = self._ticks_ahead(started_ns, tick) if played else 1
        tail = self._buffer.upcoming(played.consumed, ahead + _TAIL_TICKS) if played else None
        positions, velocities = self._state(joints, played or motion)
        # The target of a tick is reached one period after it, and so is a chunk's first target.
        delay_s = (ahead - 1) * self._period_ns / NS_PER_S
        decoded = self._decoder.decode(step, positions, velocities, delay_s, latent, tail)
        ended_ns = self._clock.now_ns()
        consumed = played.consumed if played else tick.consumed
        self._number += 1
        # The frozen prefix needs no rows here: until the chunk's first tick the buffer plays the
        # old one, and it fades where the rows change over. Rows in front would hide that seam.
        self._buffer.offer(Chunk(
            self._number, tick.number, consumed + ahead, decoded.positions, epoch
        ))
        self._note(ended_ns - started_ns, played is not None and self._is_behind(consumed + ahead))
        return Made(self._number, decoded.remaining_s, started_ns, ended_ns)

    def _note(self, duration_ns: int, was_late: bool) -> None:
        """Keep how long a run took and whether its chunk came after its first tick."""
        self._durations_ns.append(duration_ns)
        self._was_late = was_late
        self.late_count += was_late
        self.slow_count += duration_ns > self._slow_ns

    def _state(self, joints: JointState, wanted: Target | Motion) -> tuple[Array, Array]:
        """Return positions and velocities (joints,) to plan from."""
        positions, velocities, finger = wanted.positions, wanted.velocities, self._finger
        if abs(joints.positions[finger] - positions[finger]) > self._finger_off:
            positions, velocities = positions.copy(), velocities.copy()
            positions[finger] = joints.positions[finger]
            velocities[finger] = joints.velocities[finger]
        return positions, velocities

    def _is_behind(self, first_use: float) -> bool:
        """Tell whether the tick of consumption at which a chunk was to be used has passed."""
        played = self._buffer.played
        return played is not None and played.consumed >= first_use

    def _ticks_ahead(self, started_ns: int, tick: TickStamp) -> int:
        """Return how many ticks after ``tick`` the chunk can be used first."""
        ready_ns = started_ns + self.expected_ns
        return max(1, math.ceil((ready_ns - tick.time_ns) / self._period_ns))

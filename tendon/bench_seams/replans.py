# SPDX-License-Identifier: Apache-2.0
"""The shipped decoder, asked anew while the arm moves, for a target that is never quite the same.

Buffer and safety filter are the robot's. Each answer comes ``delay_ticks`` late and is for a
target that is off by some millimetres, as a backbone sees it that looks again. With guidance the
decoder is told what will be played until then and leaves it softly; without, it is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.chunk import Chunk
from onboard_decoder.config import ChunkSettings
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest import Manifest
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.plan import PlanStep, Skill
from onboard_decoder.plan_buffer import PlanBuffer
from onboard_decoder.plan_decoder import PlanDecoder
from onboard_decoder.safety_filter import SafetyFilter

Array = NDArray[np.float64]

SPREAD_M = 0.012  # 20 mrad at 0.6 m from the base
GOAL_TICKS = 80   # then the arm is sent elsewhere
GOALS, QUICK_GOALS = 60, 4
_TAIL_TICKS = 50


@dataclass(frozen=True, slots=True)
class Replans:
    """What the arm was commanded: jerk RMS [rad/s^3], largest acceleration [rad/s^2].

    ``seam_rad`` is how far a chunk's first row is off what would have been played, RMS.
    """

    jerk_rms: float
    acceleration_max: float
    seam_rad: float


def replan(is_guided: bool, delay_ticks: int, seed: int, quick: bool = False) -> Replans:
    """Send the arm from goal to goal; return how smooth that was."""
    manifest = load_manifest('tendon_arm')
    rng = np.random.default_rng(seed)
    asker = _Asker(manifest, delay_ticks, is_guided)
    commands = []
    for _ in range(QUICK_GOALS if quick else GOALS):
        goal = np.array([rng.uniform(0.35, 0.6), rng.uniform(-0.3, 0.3), rng.uniform(0.1, 0.35)])
        for _ in range(GOAL_TICKS):
            commands.append(asker.tick(goal + rng.normal(0, SPREAD_M, 3)))
    arm = np.delete(np.array(commands), manifest.gripper_index, axis=1)
    period_s = manifest.control_period_s
    return Replans(
        float(np.sqrt((np.diff(arm, 3, axis=0) ** 2).mean())) / period_s**3,
        float(np.abs(np.diff(arm, 2, axis=0)).max()) / period_s**2,
        float(np.sqrt(np.mean(asker.seams))),
    )


class _Asker:
    """Asks the decoder back to back and plays what it answers."""

    def __init__(self, manifest: Manifest, delay_ticks: int, is_guided: bool) -> None:
        settings = ChunkSettings()
        self._decoder, self._is_guided = PlanDecoder(manifest), is_guided
        self._delay, self._period_s = delay_ticks, manifest.control_period_s
        self._buffer = PlanBuffer.of(manifest, settings)
        self._filter = SafetyFilter(
            manifest, ForwardKinematics(manifest), settings.follow_gain_per_s)
        self._filter.reset(manifest.home)
        self._fingers = manifest.gripper_index
        self._tick = 0
        self._answer: Chunk | None = None
        self.seams: list[float] = []

    def tick(self, target_m: Array) -> Array:
        """Command one tick, (joints,); the target counts where the decoder is asked now."""
        is_due = self._tick % self._delay == 0
        if is_due and self._answer is not None:
            self._note_seam(self._answer)
            self._buffer.offer(self._answer)
        positions = self._filter.step(
            self._buffer.sample(self._tick, self._filter.motion)).positions
        if is_due:
            self._answer = self._asked(target_m)
        self._tick += 1
        return positions

    def _asked(self, target_m: Array) -> Chunk:
        """Return the answer to a question of now; it is there ``delay`` ticks later."""
        played = self._buffer.played
        led = played or self._filter.motion
        delay = self._delay if played else 1
        tail = None
        if played is not None and self._is_guided:
            tail = self._buffer.upcoming(played.consumed, delay + _TAIL_TICKS)
        x, y, z = target_m
        decoded = self._decoder.decode(
            PlanStep(Skill.REACH, (x, y, z)), led.positions, led.velocities,
            (delay - 1) * self._period_s, (), tail,
        )
        first = (played.consumed if played else self._tick) + delay
        return Chunk(self._tick, self._tick, first, decoded.positions)

    def _note_seam(self, new: Chunk) -> None:
        """Keep the squared distance to what would be played, per arm joint."""
        old = self._buffer.upcoming(new.first_tick, 1)
        if old is not None:
            off = np.delete(new.positions[0] - old[0], self._fingers)
            self.seams.append(float((off**2).mean()))

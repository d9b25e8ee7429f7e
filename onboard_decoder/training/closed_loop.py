# SPDX-License-Identifier: Apache-2.0
"""Does a decoder arrive: whole plans with ideal tracking, decoded again and again on the way.

The chunks go through the robot's own plan buffer, before any filter. Fingers that meet a thing
stop there. Reads step sequences from a file; knows no simulator and no physics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.chunk import Chunk, Target
from onboard_decoder.config import ChunkSettings
from onboard_decoder.decoder_port import DecoderPort
from onboard_decoder.errors import ChunkRefused
from onboard_decoder.joint_limiter import Motion
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest import Manifest
from onboard_decoder.plan import PlanStep, Skill
from onboard_decoder.plan_buffer import PlanBuffer

Array = NDArray[np.float64]

SKILLS = tuple(Skill)
OVER_S = 0.08       # remaining time below which a step counts as over
STILL = 0.02        # share of the speed limit below which a joint counts as at rest
SETTLE_TICKS = 15   # after a step is over, before its error is taken
LIMIT_S = 10.0      # a step that takes longer was not done
FAR_M = 0.015       # fingers must not act farther than this from the target
FINGER_M = 0.002


@dataclass(frozen=True)
class LoopSettings:
    """How the loop runs: ticks between two decodings, ticks until a chunk is used."""

    every_ticks: int = 8
    ahead_ticks: int = 3

    @property
    def name(self) -> str:
        """The rhythm in a few words."""
        return f'every {self.every_ticks}, used {self.ahead_ticks} later'


@dataclass(frozen=True)
class StepResult:
    """One step: was its end seen, when, and how good was it.

    Attributes:
        skill: of the step.
        is_over: the decoder said that the step is over, at rest, in time.
        time_ratio: time taken by time of the expert (at least 0.3 s).
        error_m: tool to target at rest.
        finger_right: the finger command at the end is the wanted one.
        finger_early: ticks with the fingers acting too far from the target.
        speed_share, acceleration_share: greatest share of the limits inside a chunk, arm joints.
        ticks: taken.
    """

    skill: Skill
    is_over: bool
    time_ratio: float
    error_m: float
    finger_right: bool
    finger_early: int
    speed_share: float
    acceleration_share: float
    ticks: int


class ClosedLoop:
    """Plays steps with one decoder."""

    def __init__(self, decoder: DecoderPort, manifest: Manifest, settings: LoopSettings) -> None:
        self._decoder, self._manifest, self._settings = decoder, manifest, settings
        self._kinematics = ForwardKinematics(manifest)
        self._buffer = PlanBuffer.of(manifest, ChunkSettings())
        self._tick, self._horizon = 0, 2
        self._rest = STILL * manifest.column('max_velocity')
        self._now = Target(manifest.home, 0 * manifest.home, 0)
        self._decoded_tick = 0
        self._remaining_s = np.inf
        self._speed_share = self._acceleration_share = 0.0

    def reset(self, joints: Array) -> None:
        """Stand still at joints (joints,)."""
        self._now = Target(joints, 0 * joints, 0)
        self._buffer.clear()

    def play(self, step: PlanStep, stop: float, expert_s: float) -> StepResult:
        """Play one step until it is over; `stop` is where a thing stops the fingers [m]."""
        self._decoded_tick, self._remaining_s = self._tick - 1000, np.inf
        self._speed_share = self._acceleration_share = 0.0
        ticks, early, over = 0, 0, False
        limit = round(LIMIT_S / self._manifest.control_period_s)
        while not over and ticks < limit:
            self._advance(step, stop)
            ticks += 1
            early += self._acts_early(step)
            still = bool((np.abs(self._now.velocities) < self._rest)[:-1].all())
            over = still and self._remaining_s < OVER_S
        for _ in range(SETTLE_TICKS):
            self._advance(step, stop)
        ratio = ticks * self._manifest.control_period_s / max(expert_s, 0.3)
        return StepResult(step.skill, over, ratio, self._error(step), self._finger_right(step),
                          early, self._speed_share, self._acceleration_share, ticks)

    def _advance(self, step: PlanStep, stop: float) -> None:
        """Run one tick."""
        if self._tick - self._decoded_tick >= self._settings.every_ticks:
            self._decode(step, stop)
        self._tick += 1
        led = Motion(self._now.positions, self._now.velocities, 0 * self._now.positions)
        target = self._buffer.sample(self._tick, led)
        self._now = target or Target(self._now.positions, 0 * self._now.positions, 0)

    def _decode(self, step: PlanStep, stop: float) -> None:
        joints, velocities = self._now.positions.copy(), self._now.velocities.copy()
        if joints[-1] < stop:
            joints[-1], velocities[-1] = stop, 0.0
        ahead, played = self._settings.ahead_ticks, self._buffer.played
        tail = None
        if played is not None:
            tail = self._buffer.upcoming(played.consumed, ahead + self._horizon)
        delay_s = (ahead - 1) * self._manifest.control_period_s
        self._decoded_tick = self._tick
        try:
            decoded = self._decoder.decode(step, joints, velocities, delay_s, (), tail)
        except ChunkRefused:    # as on the robot: what plays is played on
            return
        rows = decoded.positions
        self._horizon = len(decoded.positions)
        self._buffer.offer(Chunk(
            self._tick, self._tick, self._tick + ahead, rows, self._buffer.epoch))
        self._remaining_s = decoded.remaining_s
        self._look_at(rows if tail is None else np.concatenate([tail[:ahead], rows]))

    def _look_at(self, chunk: Array) -> None:
        """Keep the greatest shares of the limits; chunk (horizon, joints)."""
        period_s = self._manifest.control_period_s
        speed = np.abs(np.diff(chunk, axis=0)) / period_s
        change = np.abs(np.diff(chunk, n=2, axis=0)) / period_s**2
        speed /= self._manifest.column('max_velocity')
        change /= self._manifest.column('max_acceleration')
        self._speed_share = max(self._speed_share, float(speed[:, :-1].max()))
        self._acceleration_share = max(self._acceleration_share, float(change[:, :-1].max()))

    def _error(self, step: PlanStep) -> float:
        """Tool to target [m]."""
        tool = self._kinematics.tool_position(self._now.positions)
        if step.skill is Skill.HOME or step.target_in_base_m is None:
            return float(np.linalg.norm(
                tool - self._kinematics.tool_position(self._manifest.home)))
        return float(np.linalg.norm(tool - step.target_in_base_m))

    def _finger_right(self, step: PlanStep) -> bool:
        wanted = self._manifest.gripper.position(step.gripper_opening)
        return bool(abs(self._now.positions[-1] - wanted) < FINGER_M)

    def _acts_early(self, step: PlanStep) -> bool:
        """Tell whether a GRASP closes or a PLACE opens too far from the target."""
        finger, speed = self._now.positions[-1], self._now.velocities[-1]
        if self._error(step) < FAR_M:
            return False
        if step.skill is Skill.GRASP:
            return bool(speed < -0.01)
        return bool(step.skill is Skill.PLACE and finger > FINGER_M)


def play_sequences(
    path: Path, decoder: DecoderPort, manifest: Manifest, settings: LoopSettings
) -> list[StepResult]:
    """Play all sequences of a file; each begins where it says, each step where the last ended."""
    with np.load(path, allow_pickle=False) as file:
        sequences: Mapping[str, Array] = {name: file[name] for name in file}
    loop = ClosedLoop(decoder, manifest, settings)
    results = []
    for row in range(len(sequences['skill'])):
        loop.reset(sequences['start'][row])
        for number in np.flatnonzero(sequences['skill'][row] >= 0):
            at = row, int(number)
            results.append(loop.play(
                _step(sequences, at), float(sequences['stop'][at]),
                float(sequences['expert_s'][at])))
    return results


def _step(sequences: Mapping[str, Array], at: tuple[int, int]) -> PlanStep:
    skill = SKILLS[int(sequences['skill'][at])]
    x, y, z, yaw = sequences['target'][at]
    return PlanStep(skill, None if skill is Skill.HOME else (x, y, z), float(yaw),
                    float(sequences['gripper'][at]), float(sequences['speed'][at]))


def summary(results: list[StepResult]) -> dict[str, float]:
    """Figures over all steps, names with units."""
    def column(name: str) -> Array:
        return np.array([getattr(result, name) for result in results], dtype=np.float64)

    error_mm = 1000 * column('error_m')
    ticks = column('ticks').sum()
    return {
        'steps': float(len(results)),
        'step end detected': float(column('is_over').mean()),
        'tool error at rest p50 [mm]': float(np.percentile(error_mm, 50)),
        'tool error at rest p95 [mm]': float(np.percentile(error_mm, 95)),
        'tool error at rest max [mm]': float(error_mm.max()),
        'time by expert p50': float(np.percentile(column('time_ratio'), 50)),
        'time by expert p95': float(np.percentile(column('time_ratio'), 95)),
        'finger command right': float(column('finger_right').mean()),
        'ticks with early fingers': float(column('finger_early').sum() / ticks),
        'steps above speed limit': float((column('speed_share') > 1).mean()),
        'steps above acceleration limit': float((column('acceleration_share') > 1).mean()),
        'speed share max': float(column('speed_share').max()),
        'acceleration share p95': float(np.percentile(column('acceleration_share'), 95)),
    }

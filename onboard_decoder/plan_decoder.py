# SPDX-License-Identifier: Apache-2.0
"""The learned decoder at run time: a plan step and fresh joints in, a chunk of joint targets out.

A chunk is drawn from the same noise each time, in a few passes of an ONNX file, and led to what is
being played (``chunk_guidance``); the motion begins where the committed rows end (``takeover``).
Takes about a millisecond on one thread. Knows nothing of plans, ticks or limits beyond those
inside the graph; torch is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.chunk_blend import Steepest
from onboard_decoder.chunk_guidance import guided, soft_mask, STEPS
from onboard_decoder.decoder_file import open_decoder
from onboard_decoder.errors import ChunkRefused
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest import Manifest
from onboard_decoder.plan import PlanStep, Skill
from onboard_decoder.takeover import behind_tail, Takeover, without_tail

Array = NDArray[np.float64]
Row = NDArray[np.float32]

OVERLAP_TICKS = 5
_WARM_UP_RUNS = 3


@dataclass(frozen=True, slots=True)
class DecodedChunk:
    """Absolute joint targets (horizon, joints) and what is left of the step [s]."""

    positions: Array
    remaining_s: float


class PlanDecoder:
    """One robot's decoder, ready to run.

    Attributes:
      horizon: targets of a chunk.
      latent_size: numbers that the backbone may add; it was trained to ignore them.
      skills: names of the skills that it was trained for.
      longest_delay_s: greatest delay that it was trained for.
    """

    def __init__(
        self, manifest: Manifest, path: Path | None = None, *, seed: int = 0,
        steps: int = STEPS, overlap_ticks: int = OVERLAP_TICKS,
    ) -> None:
        """Load, check and warm up.

        Args:
          manifest: of the robot that it is to move.
          path: the file; None for the one that the manifest names.
          seed: of the noise that chunks are drawn from.
          steps: passes per chunk that has a tail to follow; without one it is one pass.
          overlap_ticks: rows behind the frozen prefix over which a chunk leaves the old one; 0
            for no guidance.

        Raises:
          DecoderFileError: unreadable, or no decoder.
          DecoderMismatch: made for another robot, other joints or another control period.
        """
        self._session, facts = open_decoder(path or manifest.decoder, manifest)
        self.horizon, self.latent_size = facts.horizon, facts.latent_size
        self.skills, self.longest_delay_s = facts.skills, facts.longest_delay_s
        self._steps, self._period_s = steps, facts.period_s
        self._kinematics, self._steepest = ForwardKinematics(manifest), Steepest.of(manifest)
        self._joint_count = len(manifest.joints)
        shape = self.horizon, self._joint_count
        self._noise = facts.spread * np.random.default_rng(seed).standard_normal(shape)
        self._mask = np.tile(soft_mask(self.horizon, overlap_ticks)[:, None], shape[1])
        self._mask[:, manifest.gripper_index] = 0.0  # fingers are to be quick, not smooth
        self._lower, self._upper = manifest.column('lower'), manifest.column('upper')
        self._fastest = manifest.column('max_velocity')
        self._steep = manifest.column('max_acceleration')
        self._no_latent = np.zeros(self.latent_size)
        for _ in range(_WARM_UP_RUNS):
            self.decode(PlanStep(Skill.HOME), manifest.home, 0 * manifest.home, 0.0)

    def decode(
        self,
        step: PlanStep,
        joints: Array,
        velocities: Array,
        delay_s: float,
        latent: Sequence[float] = (),
        tail: Array | None = None,
    ) -> DecodedChunk:
        """Decode; see ``DecoderPort``. Without a tail ``longest_delay_s`` is the most.

        Raises:
          ChunkRefused: a value that goes in or comes out is not finite, or has the wrong width.
        """
        _row('delay_s', [delay_s], 1)
        _row('joints', joints, self._joint_count)
        _row('velocities', velocities, self._joint_count)
        delay_s = max(delay_s, 0.0)
        if tail is None:
            start = without_tail(joints, velocities, min(delay_s, self.longest_delay_s))
        else:
            start = behind_tail(joints, velocities, delay_s, tail, self._period_s, self.horizon)
        feeds = self._feeds(step, start, latent)
        remaining_s = math.nan

        def denoise(draft: Array, tau: float) -> Array:
            nonlocal remaining_s
            feeds['draft'] = draft[None].astype(np.float32)
            feeds['tau'] = _row('tau', [tau], 1)
            chunk, remaining = self._session.run(['chunk', 'remaining'], feeds)
            remaining_s = float(remaining[0, 0])
            return start.anchored(np.asarray(chunk[0], dtype=np.float64), self._steepest)

        noise = start.joints + self._noise
        # The network sees one chunk per state; further passes serve to follow a tail.
        steps = 1 if start.tail is None else self._steps
        rows = guided(denoise, noise, start.tail, self._mask, steps)
        if not (np.isfinite(rows).all() and math.isfinite(remaining_s)):
            raise ChunkRefused(f'the decoder gave values that are not finite for {step}')
        positions = np.clip(rows, self._lower, self._upper)
        return DecodedChunk(positions, start.moving_s + remaining_s)

    def _feeds(self, step: PlanStep, start: Takeover, latent: Sequence[float]) -> dict[str, Row]:
        """Return what all passes of a chunk are given."""
        # What the arm cannot do was not in training either.
        count, fastest = self._joint_count, self._fastest
        velocities = np.clip(start.velocities, -fastest, fastest)
        bend = start.accelerations
        known = bend is not None
        bend = np.zeros(count) if bend is None else np.clip(bend, -self._steep, self._steep)
        return {
            'skill': self._one_hot(step.skill),
            'target': self._target(step, start.joints),
            'gripper': _row('gripper_opening', [step.gripper_opening], 1),
            'speed': _row('speed', [step.speed], 1),
            'joints': _row('joints', start.joints, count),
            'velocities': _row('velocities', velocities, count),
            'accelerations': _row('accelerations', bend[:-1], count - 1),
            'known': _row('known', [known], 1),
            'delay': _row('delay_s', [start.delay_s], 1),
            'latent': _row('latent', latent if len(latent) else self._no_latent, self.latent_size),
        }

    def _one_hot(self, skill: Skill) -> NDArray[np.float32]:
        if skill.value not in self.skills:
            raise ChunkRefused(
                f'the decoder does not know {skill.value}; it knows {", ".join(self.skills)}')
        row = np.zeros((1, len(self.skills)), dtype=np.float32)
        row[0, self.skills.index(skill.value)] = 1.0
        return row

    def _target(self, step: PlanStep, joints: Array) -> NDArray[np.float32]:
        """Return tool x, y, z, yaw (1, 4): of the step, none for HOME, else where the tool is."""
        if step.skill is Skill.HOME:
            return np.zeros((1, 4), dtype=np.float32)
        if step.target_in_base_m is not None:
            return _row('target', [*step.target_in_base_m, step.tool_yaw_rad], 4)
        here = self._kinematics.tool_position(joints)
        return _row('target', [*here, self._kinematics.tool_yaw(joints)], 4)


def _row(name: str, values: Array | Sequence[float], width: int) -> NDArray[np.float32]:
    """Return a checked row (1, width)."""
    row = np.asarray(values, dtype=np.float32).reshape(1, -1)
    if row.shape[1] != width:
        raise ChunkRefused(f'{name} has {row.shape[1]} values; the decoder takes {width}')
    if not np.isfinite(row).all():
        raise ChunkRefused(f'{name} is {row[0].tolist()}; every value must be finite')
    return row

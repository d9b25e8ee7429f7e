# SPDX-License-Identifier: Apache-2.0
"""The learned decoder at run time: a plan step and fresh joints in, a chunk of joint targets out.

Runs an ONNX file on one thread that never spins, and takes about a tenth of a millisecond. A file
that was trained for another robot is refused when it is loaded. Knows nothing of plans, ticks or
limits beyond those inside the graph; torch is not needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.errors import ChunkRefused, ConfigError, DecoderMismatch
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest import Manifest
from onboard_decoder.plan import PlanStep, Skill
import onnxruntime

Array = NDArray[np.float64]

INPUTS = ('skill', 'target', 'gripper', 'speed', 'joints', 'velocities', 'delay', 'latent')
_WARM_UP_RUNS = 5


class DecoderFileError(ConfigError):
    """The decoder's file cannot be used."""

    def __init__(self, path: Path, problem: object) -> None:
        super().__init__(
            f'decoder {path}: {problem}; it must be an ONNX file with the inputs '
            f'{", ".join(INPUTS)}, made by "python -m onboard_decoder.training"')


@dataclass(frozen=True, slots=True)
class DecodedChunk:
    """Absolute joint targets (horizon, joints) and what is left of the step [s]."""

    positions: Array
    remaining_s: float


class PlanDecoder:
    """One robot's decoder, ready to run.

    Attributes:
      horizon: targets of a chunk.
      latent_size: numbers that the backbone may add.
      skills: names of the skills that it was trained for.
    """

    def __init__(self, manifest: Manifest, path: Path | None = None) -> None:
        """Load, check and warm up.

        Args:
          manifest: of the robot that it is to move.
          path: the file; None for the one that the manifest names.

        Raises:
          DecoderFileError: unreadable, or no decoder.
          DecoderMismatch: made for another robot, other joints or another control period.
        """
        file = path or manifest.decoder
        self._session = _open(file)
        about = _metadata(self._session, file)
        _check(about, manifest)
        self.horizon = int(about['horizon'])
        self.latent_size = int(about['latent_size'])
        self.skills: tuple[str, ...] = tuple(about['skills'])
        self._kinematics = ForwardKinematics(manifest)
        self._joint_count = len(manifest.joints)
        self._no_latent = np.zeros(self.latent_size)
        self._refuse_other_inputs(file)
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
        """Decode; see ``DecoderPort``.

        Raises:
          ChunkRefused: a value that goes in or comes out is not finite, or has the wrong width.
        """
        feeds = {
            'skill': self._one_hot(step.skill),
            'target': self._target(step, joints),
            'gripper': _row('gripper_opening', [step.gripper_opening], 1),
            'speed': _row('speed', [step.speed], 1),
            'joints': _row('joints', joints, self._joint_count),
            'velocities': _row('velocities', velocities, self._joint_count),
            'delay': _row('delay_s', [delay_s], 1),
            'latent': _row('latent', latent if len(latent) else self._no_latent, self.latent_size),
        }
        chunk, remaining = self._session.run(['chunk', 'remaining'], feeds)
        positions = np.asarray(chunk[0], dtype=np.float64)
        remaining_s = float(remaining[0, 0])
        if not (np.isfinite(positions).all() and math.isfinite(remaining_s)):
            raise ChunkRefused(f'the decoder gave values that are not finite for {step}')
        return DecodedChunk(positions, remaining_s)

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
        _row('joints', joints, self._joint_count)
        here = self._kinematics.tool_position(joints)
        return _row('target', [*here, self._kinematics.tool_yaw(joints)], 4)

    def _refuse_other_inputs(self, file: Path) -> None:
        names = {entry.name for entry in self._session.get_inputs()}
        if names != set(INPUTS):
            raise DecoderFileError(file, f'its inputs are {", ".join(sorted(names))}')


def _open(file: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry('session.intra_op.allow_spinning', '0')
    options.add_session_config_entry('session.inter_op.allow_spinning', '0')
    options.log_severity_level = 3
    if not file.is_file():
        raise DecoderFileError(file, 'there is no such file')
    try:
        return onnxruntime.InferenceSession(
            str(file), options, providers=['CPUExecutionProvider'])
    except Exception as error:  # onnxruntime's own errors share no base but Exception
        raise DecoderFileError(file, error) from error


def _metadata(session: onnxruntime.InferenceSession, file: Path) -> dict[str, Any]:
    """Read what the file says of itself."""
    raw: Mapping[str, str] = session.get_modelmeta().custom_metadata_map
    try:
        return {
            'robot': raw['robot'],
            'joints': json.loads(raw['joints']),
            'skills': json.loads(raw['skills']),
            'period_s': float(raw['period_s']),
            'horizon': int(raw['horizon']),
            'latent_size': int(raw['latent_size']),
        }
    except (KeyError, ValueError) as error:
        raise DecoderFileError(file, f'its metadata lacks {error}') from error


def _check(about: Mapping[str, Any], manifest: Manifest) -> None:
    """Compare the file with the manifest."""
    if about['robot'] != manifest.name:
        raise DecoderMismatch('robot', about['robot'], manifest.name)
    if tuple(about['joints']) != manifest.joint_names:
        raise DecoderMismatch('joints', about['joints'], list(manifest.joint_names))
    if not math.isclose(about['period_s'], manifest.control_period_s, rel_tol=1e-6):
        raise DecoderMismatch('control period', about['period_s'], manifest.control_period_s)


def _row(name: str, values: Array | Sequence[float], width: int) -> NDArray[np.float32]:
    """Return a checked row (1, width)."""
    row = np.asarray(values, dtype=np.float32).reshape(1, -1)
    if row.shape[1] != width:
        raise ChunkRefused(f'{name} has {row.shape[1]} values; the decoder takes {width}')
    if not np.isfinite(row).all():
        raise ChunkRefused(f'{name} is {row[0].tolist()}; every value must be finite')
    return row

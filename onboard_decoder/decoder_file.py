# SPDX-License-Identifier: Apache-2.0
"""A decoder's ONNX file: opened on one thread that never spins, and checked against the robot.

Knows the file's inputs and what it says of itself; computes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import json
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.errors import ConfigError, DecoderMismatch
from onboard_decoder.manifest import Manifest
from onboard_decoder.onnx_file import NotOnnx, open_onnx
import onnxruntime

INPUTS = ('skill', 'target', 'gripper', 'speed', 'joints', 'velocities', 'accelerations', 'known',
          'delay', 'latent', 'draft', 'tau')


class DecoderFileError(ConfigError):
    """The decoder's file cannot be used."""

    def __init__(self, path: Path, problem: object) -> None:
        super().__init__(
            f'decoder {path}: {problem}; it must be an ONNX file with the inputs '
            f'{", ".join(INPUTS)}, made by "python -m onboard_decoder.training"')

    @classmethod
    def missing(cls, path: Path, robot: str) -> DecoderFileError:
        """Nobody has trained one for this robot yet, or it lies elsewhere."""
        return cls(path, f'there is no such file, and {robot} does not move without a decoder of '
                   f'its own; docs/your_arm.md says how to train one')


@dataclass(frozen=True, slots=True)
class DecoderFacts:
    """What a file says of itself.

    Attributes:
      robot: whose decoder it is.
      joints: names, in order.
      skills: names of the skills that it was trained for, in order.
      period_s: of the control loop.
      horizon: targets of a chunk.
      latent_size: numbers that the backbone may add.
      longest_delay_s: greatest delay that it was trained for.
      spread: deviation of the noise that a chunk is drawn from (joints,).
    """

    robot: str
    joints: tuple[str, ...]
    skills: tuple[str, ...]
    period_s: float
    horizon: int
    latent_size: int
    longest_delay_s: float
    spread: NDArray[np.float64]


def open_decoder(file: Path, manifest: Manifest) -> tuple[onnxruntime.InferenceSession,
                                                          DecoderFacts]:
    """Open a robot's decoder.

    Raises:
      DecoderFileError: unreadable, or no decoder.
      DecoderMismatch: made for another robot, other joints or another control period.
    """
    session = _open(file, manifest.name)
    facts = _facts(session, file)
    _check(facts, manifest)
    names = {entry.name for entry in session.get_inputs()}
    if names != set(INPUTS):
        raise DecoderFileError(file, f'its inputs are {", ".join(sorted(names))}')
    return session, facts


def _open(file: Path, robot: str) -> onnxruntime.InferenceSession:
    if not file.is_file():
        raise DecoderFileError.missing(file, robot)
    try:
        return open_onnx(file)
    except NotOnnx as error:
        raise DecoderFileError(file, error) from error


def _facts(session: onnxruntime.InferenceSession, file: Path) -> DecoderFacts:
    """Read what the file says of itself."""
    raw: Mapping[str, str] = session.get_modelmeta().custom_metadata_map
    try:
        return DecoderFacts(
            robot=raw['robot'],
            joints=tuple(json.loads(raw['joints'])),
            skills=tuple(json.loads(raw['skills'])),
            period_s=float(raw['period_s']),
            horizon=int(raw['horizon']),
            latent_size=int(raw['latent_size']),
            longest_delay_s=float(raw['longest_delay_s']),
            spread=np.array(json.loads(raw['spread']), dtype=np.float64),
        )
    except (KeyError, ValueError) as error:
        raise DecoderFileError(file, f'its metadata lacks {error}') from error


def _check(facts: DecoderFacts, manifest: Manifest) -> None:
    """Compare the file with the manifest."""
    if facts.robot != manifest.name:
        raise DecoderMismatch('robot', facts.robot, manifest.name)
    if facts.joints != manifest.joint_names:
        raise DecoderMismatch('joints', list(facts.joints), list(manifest.joint_names))
    if not math.isclose(facts.period_s, manifest.control_period_s, rel_tol=1e-6):
        raise DecoderMismatch('control period', facts.period_s, manifest.control_period_s)

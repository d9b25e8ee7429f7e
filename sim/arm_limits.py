# SPDX-License-Identifier: Apache-2.0
"""Limits and home pose of the commanded joints, read from a robot's manifest (a YAML file).

The manifest belongs to the robot; this file takes from it what a motion needs and knows nothing
of cameras, decoders or kinematics.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sim.errors import SimError
import yaml

Array = NDArray[np.float64]
_COLUMNS = ('lower', 'upper', 'max_velocity', 'max_acceleration', 'max_jerk', 'home')


class ManifestFileError(SimError):
    """The manifest does not say what a motion needs to know."""

    def __init__(self, path: Path, problem: object) -> None:
        super().__init__(f'manifest {path}: {problem}; every joint needs name, '
                         + ', '.join(_COLUMNS))


@dataclass(frozen=True)
class ArmLimits:
    """One number per commanded joint, manifest order, the gripper last. Shape (joints,).

    Attributes:
        robot: name of the robot.
        names: joint names.
        lower, upper: positions [rad]; finger [m].
        velocity, acceleration, jerk: largest magnitudes, per s, s^2, s^3.
        home: home pose.
        period_s: control period.
        open_position, closed_position: of the finger [m].
    """

    robot: str
    names: tuple[str, ...]
    lower: Array
    upper: Array
    velocity: Array
    acceleration: Array
    jerk: Array
    home: Array
    period_s: float
    open_position: float
    closed_position: float

    @classmethod
    def from_manifest(cls, path: Path) -> ArmLimits:
        """Read a manifest.

        Raises:
            ManifestFileError: a value is missing, or the gripper is not the last joint.
        """
        try:
            data = yaml.safe_load(path.read_text(encoding='utf-8'))
            limits = cls._read(data)
            last = str(data['gripper']['joint'])
        except (OSError, TypeError, ValueError, KeyError, yaml.YAMLError) as error:
            raise ManifestFileError(path, repr(error)) from error
        if last != limits.names[-1]:
            raise ManifestFileError(path, f'the gripper joint {last!r} is not the last joint')
        return limits

    @classmethod
    def _read(cls, data: dict[str, Any]) -> ArmLimits:
        joints = data['joints']
        lower, upper, velocity, acceleration, jerk, home = (
            np.array([float(joint[column]) for joint in joints]) for column in _COLUMNS)
        return cls(
            str(data['name']), tuple(str(joint['name']) for joint in joints),
            lower, upper, velocity, acceleration, jerk, home, float(data['control_period_s']),
            float(data['gripper']['open_position']), float(data['gripper']['closed_position']))

    def finger(self, opening: Array) -> Array:
        """Finger positions [m] for openings 0 closed to 1 open."""
        return self.closed_position + opening * (self.open_position - self.closed_position)

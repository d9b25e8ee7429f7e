# SPDX-License-Identifier: Apache-2.0
"""What a robot says of itself: joints, gripper, cameras, workspace, kinematic chain.

Any arm; nothing here knows a particular one. Values that contradict each other are refused when an
object is built. ``manifest_yaml`` reads the file.
"""

from dataclasses import dataclass
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.errors import ManifestError

Vector = tuple[float, float, float]
UNITS = ('rad', 'm')


@dataclass(frozen=True, slots=True)
class Joint:
    """One commanded joint; ``unit`` is 'rad' or 'm' and holds for every value, per s, s^2, s^3."""

    name: str
    unit: str
    lower: float
    upper: float
    max_velocity: float
    max_acceleration: float
    max_jerk: float
    home: float

    def __post_init__(self) -> None:
        where = f'joint {self.name!r}'
        if not self.name:
            raise ManifestError('joints', 'a joint has an empty name')
        if self.unit not in UNITS:
            raise ManifestError(where, f'unit is {self.unit!r}; it must be one of {UNITS}')
        if not self.lower < self.upper:
            raise ManifestError(where, f'lower {self.lower} must be below upper {self.upper}')
        if not self.lower <= self.home <= self.upper:
            raise ManifestError(where, f'home {self.home} is not in {self.lower}..{self.upper}')
        for limit in ('max_velocity', 'max_acceleration', 'max_jerk'):
            if not 0 < getattr(self, limit) < math.inf:
                raise ManifestError(where, f'{limit} is {getattr(self, limit)}; it must be > 0')


@dataclass(frozen=True, slots=True)
class Gripper:
    """A parallel gripper: its joint and that joint's positions when open and closed."""

    joint: str
    open_position: float
    closed_position: float

    def __post_init__(self) -> None:
        if self.open_position == self.closed_position:
            raise ManifestError('gripper', f'open and closed are both {self.open_position}')

    def opening(self, position: float) -> float:
        """Return how open the gripper is at a joint position: 0 closed, 1 open."""
        return (position - self.closed_position) / (self.open_position - self.closed_position)

    def position(self, opening: float) -> float:
        """Return the joint position of an opening."""
        return self.closed_position + opening * (self.open_position - self.closed_position)


@dataclass(frozen=True, slots=True)
class Camera:
    """A calibrated pinhole camera; its axes are x right, y down, z forward."""

    name: str
    width_px: int
    height_px: int
    vertical_fov_rad: float
    camera_in_base_m: Vector
    camera_to_base_wxyz: tuple[float, float, float, float]

    def __post_init__(self) -> None:
        where = f'camera {self.name!r}'
        if self.width_px < 1 or self.height_px < 1:
            raise ManifestError(where, f'size {self.width_px}x{self.height_px} must be positive')
        if not 0 < self.vertical_fov_rad < math.pi:
            raise ManifestError(where, f'vertical_fov_rad {self.vertical_fov_rad} not in 0..pi')
        norm = math.sqrt(sum(value * value for value in self.camera_to_base_wxyz))
        if abs(norm - 1.0) > 1e-3:
            raise ManifestError(where, f'camera_to_base_wxyz has length {norm:.4f}, not 1')


@dataclass(frozen=True, slots=True)
class Box:
    """Axis-parallel box in the base frame [m]."""

    lower_m: Vector
    upper_m: Vector

    def __post_init__(self) -> None:
        if any(low >= high for low, high in zip(self.lower_m, self.upper_m, strict=True)):
            raise ManifestError('workspace', f'lower {self.lower_m} not below {self.upper_m}')

    def contains(self, point_m: Vector) -> bool:
        """True for a point in the box, its faces included [m]."""
        bounds = zip(self.lower_m, point_m, self.upper_m, strict=True)
        return all(low <= value <= high for low, value, high in bounds)


@dataclass(frozen=True, slots=True)
class Transform:
    """Fixed transform parent -> child as in URDF: xyz [m], roll-pitch-yaw [rad]."""

    xyz: Vector
    rpy: Vector


@dataclass(frozen=True, slots=True)
class Kinematics:
    """``chain[i]`` leads to joint i, which turns about its z; ``tool`` from the last one on."""

    chain: tuple[Transform, ...]
    tool: Transform


@dataclass(frozen=True, slots=True)
class Manifest:
    """One robot. Joint arrays of this package are in the order of ``joints``, axis (joints,)."""

    name: str
    control_period_s: float
    joints: tuple[Joint, ...]
    gripper: Gripper
    cameras: tuple[Camera, ...]
    workspace: Box
    table_height_m: float
    kinematics: Kinematics
    decoder: Path

    def __post_init__(self) -> None:
        if not 0.001 <= self.control_period_s <= 1.0:
            raise ManifestError(
                'control_period_s', f'{self.control_period_s} s is not in 0.001..1')
        _refuse_repeated('joints', self.joint_names)
        _refuse_repeated('cameras', tuple(camera.name for camera in self.cameras))
        if not self.cameras:
            raise ManifestError('cameras', 'there is none; the backbone needs at least one')
        self._check_gripper()
        if not 1 <= len(self.kinematics.chain) <= len(self.joints):
            raise ManifestError(
                'kinematics.chain',
                f'{len(self.kinematics.chain)} transforms for {len(self.joints)} joints')

    def _check_gripper(self) -> None:
        """The gripper's joint exists and reaches both of its positions."""
        if self.gripper.joint not in self.joint_names:
            raise ManifestError(
                'gripper.joint',
                f'{self.gripper.joint!r} is no joint; joints are {", ".join(self.joint_names)}')
        joint = self.joints[self.gripper_index]
        for position in (self.gripper.open_position, self.gripper.closed_position):
            if not joint.lower <= position <= joint.upper:
                raise ManifestError(
                    'gripper', f'position {position} is not in {joint.lower}..{joint.upper}')

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names in the order of all joint arrays."""
        return tuple(joint.name for joint in self.joints)

    @property
    def gripper_index(self) -> int:
        """Index of the gripper's joint."""
        return self.joint_names.index(self.gripper.joint)

    @property
    def home(self) -> NDArray[np.float64]:
        """Home pose, (joints,)."""
        return self.column('home')

    def column(self, field: str) -> NDArray[np.float64]:
        """Return one number of every joint, (joints,)."""
        return np.array([getattr(joint, field) for joint in self.joints], dtype=np.float64)

    def camera(self, name: str) -> Camera:
        """Return a camera. Raises ManifestError for an unknown name."""
        for camera in self.cameras:
            if camera.name == name:
                return camera
        known = ', '.join(camera.name for camera in self.cameras)
        raise ManifestError('cameras', f'there is no {name!r}; cameras are {known}')


def _refuse_repeated(where: str, names: tuple[str, ...]) -> None:
    """Names must be unique."""
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ManifestError(where, f'{", ".join(sorted(repeated))} named more than once')

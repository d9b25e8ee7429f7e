# SPDX-License-Identifier: Apache-2.0
"""What the backbone must know of a robot: joints, camera, workspace. Checked when built.

Mirrors the part of ``embodiment.proto`` that planning needs; knows neither wire nor model.
"""

from __future__ import annotations

from dataclasses import dataclass
import math

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Camera:
    """A calibrated pinhole camera; its own axes are x right, y down, z forward."""

    name: str
    width_px: int
    height_px: int
    vertical_fov: float
    """Vertical field of view [rad]."""
    camera_in_base: Vector
    """Position of the optical centre [m]."""
    camera_to_base: tuple[float, float, float, float]
    """Rotation as unit quaternion (w, x, y, z)."""

    def __post_init__(self) -> None:
        """Refuse what no camera can be."""
        what = f'camera {self.name!r}'
        _check(bool(self.name), 'a camera has no name')
        _check(
            0 < self.width_px <= 16384 and 0 < self.height_px <= 16384,
            f'{what} is {self.width_px} x {self.height_px} px, allowed 1 to 16384',
        )
        _check(
            0.0 < self.vertical_fov < math.pi,
            f'{what} has a vertical field of view of {self.vertical_fov} rad, allowed 0 to pi',
        )
        _check(_finite(self.camera_in_base), f'position of {what} is {self.camera_in_base}')
        norm = math.sqrt(sum(part * part for part in self.camera_to_base))
        _check(
            abs(norm - 1.0) < 1e-2,
            f'rotation of {what} is {self.camera_to_base} with norm {norm:.3g}, must have norm 1',
        )


@dataclass(frozen=True)
class Embodiment:
    """One kind of robot with at least one joint and one camera; the first camera is used."""

    name: str
    joints: tuple[str, ...]
    """All commanded joints in the order of the wire."""
    cameras: tuple[Camera, ...]
    gripper_joint: str
    workspace_lower: Vector
    """Lowest corner of where the tool may go, in the base frame [m]."""
    workspace_upper: Vector
    table_height: float = 0.0
    """Height of the plane that objects stand on, in the base frame [m]."""
    control_period_s: float = 0.02

    def __post_init__(self) -> None:
        """Refuse an embodiment that contradicts itself; the message names the values."""
        _check(bool(self.joints), 'the embodiment has no joints, needs at least one')
        _check(len(set(self.joints)) == len(self.joints), f'joint names repeat: {self.joints}')
        _check(all(self.joints), 'a joint has no name')
        _check(bool(self.cameras), 'the embodiment has no camera, needs at least one')
        names = [camera.name for camera in self.cameras]
        _check(len(set(names)) == len(names), f'camera names repeat: {", ".join(names)}')
        _check(
            self.gripper_joint in self.joints,
            f'gripper joint {self.gripper_joint!r} is not among the joints '
            f'{", ".join(self.joints)}',
        )
        _check(
            0.0 < self.control_period_s <= 1.0,
            f'control period is {self.control_period_s} s, allowed 0 to 1 s',
        )
        box = zip(self.workspace_lower, self.workspace_upper, strict=True)
        _check(
            _finite((*self.workspace_lower, *self.workspace_upper))
            and all(lower < upper for lower, upper in box),
            f'workspace reaches from {self.workspace_lower} to {self.workspace_upper} m, '
            'the first must be lower on each axis',
        )
        _check(_finite((self.table_height,)), f'table height is {self.table_height} m')

    @property
    def camera(self) -> Camera:
        """The camera that plans are grounded with."""
        return self.cameras[0]


def _finite(values: tuple[float, ...]) -> bool:
    return all(math.isfinite(value) for value in values)


def _check(allowed: bool, message: str) -> None:
    if not allowed:
        raise ValueError(message)

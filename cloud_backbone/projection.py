# SPDX-License-Identifier: Apache-2.0
"""From a point in the image to a point in the robot's base frame, by the calibrated camera.

Knows pinhole geometry; knows no plan and no model.
"""

from __future__ import annotations

import math

from cloud_backbone.embodiment import Camera, Vector


def ray_in_base(camera: Camera, point: tuple[float, float]) -> Vector:
    """Return the direction (not of unit length) in which an image point lies.

    Args:
        camera: the camera that made the image; the image may have been scaled since.
        point: (x, y) in 0..1 from the top left corner.
    """
    half = math.tan(camera.vertical_fov / 2)
    aspect = camera.width_px / camera.height_px
    x = (2 * point[0] - 1) * half * aspect
    y = (2 * point[1] - 1) * half
    return _rotate(camera.camera_to_base, (x, y, 1.0))


def point_at_height(camera: Camera, point: tuple[float, float], height: float) -> Vector | None:
    """Return where the ray of an image point meets the plane z = ``height`` [m] in base.

    None if it does not: the ray runs level, or the plane lies behind the camera.
    """
    x, y, z = ray_in_base(camera, point)
    if abs(z) < 1e-9:
        return None
    distance = (height - camera.camera_in_base[2]) / z
    if distance <= 0:
        return None
    return (
        camera.camera_in_base[0] + distance * x,
        camera.camera_in_base[1] + distance * y,
        height,
    )


def _rotate(quaternion: tuple[float, float, float, float], vector: Vector) -> Vector:
    """Rotate a vector by a unit quaternion (w, x, y, z)."""
    w, x, y, z = quaternion
    a, b, c = vector
    # t = 2 q x v; v' = v + w t + q x t
    t = (2 * (y * c - z * b), 2 * (z * a - x * c), 2 * (x * b - y * a))
    return (
        a + w * t[0] + y * t[2] - z * t[1],
        b + w * t[1] + z * t[0] - x * t[2],
        c + w * t[2] + x * t[1] - y * t[0],
    )

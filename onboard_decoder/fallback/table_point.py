# SPDX-License-Identifier: Apache-2.0
"""From a point in the image to a point above the table, by the camera in the manifest.

The way back of ``agent.camera_view``. Knows pinhole geometry; nothing of pixels or plans.
"""

import math

import numpy as np
from onboard_decoder.agent.camera_view import rotation
from onboard_decoder.manifest import Camera, Vector


def point_at_height(
    camera: Camera, point: tuple[float, float], height_m: float
) -> Vector | None:
    """Return where the ray of an image point meets the plane z = ``height_m`` in base [m].

    None if it does not: the ray runs level, or the plane lies behind the camera.

    Args:
      camera: that made the image; the image may have been scaled since.
      point: x and y in 0..1 from the top left corner.
      height_m: in the base frame [m].
    """
    half = math.tan(camera.vertical_fov_rad / 2)
    aspect = camera.width_px / camera.height_px
    in_camera = np.array([(2 * point[0] - 1) * half * aspect, (2 * point[1] - 1) * half, 1.0])
    x, y, z = rotation(camera.camera_to_base_wxyz) @ in_camera
    if abs(z) < 1e-9:
        return None
    distance = (height_m - camera.camera_in_base_m[2]) / z
    if distance <= 0:
        return None
    start = camera.camera_in_base_m
    return (float(start[0] + distance * x), float(start[1] + distance * y), height_m)

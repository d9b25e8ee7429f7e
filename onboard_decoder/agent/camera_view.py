# SPDX-License-Identifier: Apache-2.0
"""Where tool and hand appear in a camera's image, by the calibration in the manifest.

Knows pinhole geometry; nothing of pixels or plans.
"""

import math

import numpy as np
from onboard_decoder.kinematics import Array
from onboard_decoder.manifest import Camera


def point_in_image(camera: Camera, point_in_base_m: Array) -> tuple[float, float] | None:
    """Return where a point (3,) [m] appears, x and y in 0..1 from the top left corner.

    None for a point behind the camera; values outside 0..1 lie outside the image.
    """
    offset = np.asarray(point_in_base_m) - np.array(camera.camera_in_base_m)
    x, y, z = rotation(camera.camera_to_base_wxyz).T @ offset
    if z <= 1e-6:
        return None
    half = math.tan(camera.vertical_fov_rad / 2)
    aspect = camera.width_px / camera.height_px
    return float(0.5 + x / (2 * z * half * aspect)), float(0.5 + y / (2 * z * half))


def distance_to_hand(
    camera: Camera, tool_in_base: Array, hand_m: float, point: tuple[float, float]
) -> float:
    """Return how far a point in the image is from the hand, as share of the image.

    Args:
      camera: that made the image.
      tool_in_base: pose of the tool, (4, 4) [m]; its z axis points away from the hand.
      hand_m: length of the hand behind the tool [m].
      point: x and y in 0..1.
    """
    tip, axis = tool_in_base[:3, 3], tool_in_base[:3, 2]
    ends = [point_in_image(camera, tip), point_in_image(camera, tip - hand_m * axis)]
    if ends[0] is None or ends[1] is None:
        return math.inf
    start, along = np.array(ends[0]), np.subtract(ends[1], ends[0])
    offset = np.subtract(point, start)
    share = np.clip(offset @ along / max(float(along @ along), 1e-12), 0.0, 1.0)
    return float(np.linalg.norm(offset - share * along))


def rotation(wxyz: tuple[float, float, float, float]) -> Array:
    """Return the matrix (3, 3) of a unit quaternion."""
    w, x, y, z = wxyz
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])

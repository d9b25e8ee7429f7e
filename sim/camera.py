# SPDX-License-Identifier: Apache-2.0
"""The camera in front of the table: off-screen pictures and where a point appears in them.

Pictures come from the camera as it hangs in the scene; `label_point` uses the calibration,
which is what a robot would know. Knows nothing about entities.
"""

from __future__ import annotations

import math
import os
from types import TracebackType

import numpy as np
from numpy.typing import NDArray
from sim.display import mujoco
from sim.errors import DisplayError
from sim.model import (
    camera_axes,
    CAMERA_FOVY_DEG,
    CAMERA_NAME,
    CAMERA_POSITION_M,
    IMAGE_SIZE_PX,
)

Image = NDArray[np.uint8]


class Camera:
    """Renders the front camera of a model; one per process and thread, close it after use."""

    def __init__(self, model: mujoco.MjModel) -> None:
        try:
            self._renderer = mujoco.Renderer(model, IMAGE_SIZE_PX, IMAGE_SIZE_PX)
        except Exception as fault:  # MuJoCo raises bare errors of several libraries here
            raise DisplayError(os.environ.get('MUJOCO_GL', ''), fault) from fault
        self._option = mujoco.MjvOption()
        flags = self._renderer.scene.flags
        flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = False

    def render(self, data: mujoco.MjData, shadows: bool = False) -> Image:
        """Take a picture (height, width, 3), RGB; data needs positions of bodies and lights."""
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = shadows
        self._renderer.update_scene(data, CAMERA_NAME, self._option)
        return np.array(self._renderer.render(), dtype=np.uint8)

    def close(self) -> None:
        """Free the display context; further calls do nothing."""
        self._renderer.close()

    def __enter__(self) -> Camera:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def label_point(point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Project points (..., 3) of the base frame [m] with the calibrated camera.

    Returns:
        (..., 2) in image widths and heights, origin at the top left corner.
    """
    right, up, backward = camera_axes()
    offset = np.asarray(point, dtype=np.float64) - CAMERA_POSITION_M
    focal = 0.5 / math.tan(math.radians(CAMERA_FOVY_DEG) / 2)
    depth = -offset @ backward
    across, upward = offset @ right / depth, offset @ up / depth
    return np.stack([0.5 + focal * across, 0.5 - focal * upward], axis=-1)

# SPDX-License-Identifier: Apache-2.0
"""Photographs scenes in Gazebo, each in a gzserver of its own, which takes about a second.

Knows no label and no task.
"""

from __future__ import annotations

from sim.gazebo.gazebo_arm import GazeboArm
from sim.gazebo.running_world import Image
from sim.scene import SceneSpec


class SceneCamera:
    """The calibrated camera over one scene after another; ``close`` it."""

    def __init__(self) -> None:
        self._arm = GazeboArm(lockstep=True)

    def render(self, scene: SceneSpec) -> Image:
        """Return the first picture (256, 256, 3), RGB, of a scene.

        Raises:
            GazeboUnavailable, GazeboLost: it does not start.
        """
        self._arm.reset(scene)
        return self._arm.render()

    def close(self) -> None:
        """End Gazebo."""
        self._arm.close()

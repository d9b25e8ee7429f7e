# SPDX-License-Identifier: Apache-2.0
"""Photographs scenes in Gazebo, each in a gzserver of its own, which takes about a second.

Nothing falls meanwhile: a held thing stays in the gripper. Knows no label and no task.
"""

from __future__ import annotations

from pathlib import Path
import tempfile

from sim.errors import GazeboLost
from sim.gazebo.running_world import Image, RunningWorld
from sim.gazebo.world_sdf import entity_model, world_sdf
from sim.scene import SceneSpec


class SceneCamera:
    """The calibrated camera over one scene after another; ``close`` it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix='tendon-gazebo-')

    def render(self, scene: SceneSpec) -> Image:
        """Return a picture (256, 256, 3), RGB, of a scene as it was drawn.

        Raises:
            GazeboUnavailable, GazeboLost: it does not start, twice in a row.
        """
        sdf = world_sdf(scene, weightless=True)
        names = [entity_model(index) for index in range(len(scene.entities))]
        try:
            return self._photograph(sdf, names)
        except GazeboLost:
            return self._photograph(sdf, names)

    def close(self) -> None:
        """Remove what Gazebo wrote."""
        self._folder.cleanup()

    def _photograph(self, sdf: str, names: list[str]) -> Image:
        running = RunningWorld(sdf, Path(self._folder.name), names, lockstep=True)
        try:
            running.wait_for_picture()
            return running.picture.rgb
        finally:
            running.close()

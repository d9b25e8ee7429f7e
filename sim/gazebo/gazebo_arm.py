# SPDX-License-Identifier: Apache-2.0
"""The arm on its table in Gazebo Classic, with what `sim.mujoco_arm` offers of the one in MuJoCo.

What touches what is not asked of Gazebo: its poses are shown to a MuJoCo world, which judges
contacts by geometry, so that both simulators have one judge. Tables are painted plain, and
nothing can be moved by others: mishaps are MuJoCo's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
import shutil
import tempfile

import numpy as np
from numpy.typing import NDArray
from sim.arm_port import CONTROL_PERIOD_S, JointReading, targets_after, TOP_SPEED
from sim.arm_pose import JOINTS, URDF
from sim.display import mujoco
from sim.errors import GazeboLost, SimError
from sim.gazebo.arm_sdf import MODEL
from sim.gazebo.running_world import Image, RunningWorld
from sim.gazebo.urdf_links import position_between, UrdfLinks
from sim.gazebo.world_sdf import entity_model, world_sdf
from sim.model import MIMIC_JOINT
from sim.scene import SceneSpec
from sim.world import World

Array = NDArray[np.float64]


class GazeboArm:
    """Arm, table and objects under Gazebo's physics.

    Attributes:
        joint_names: commanded joints in manifest order.
        world: what Gazebo shows, mirrored; do not step it.
        risen_m: greatest rise of each entity since the last reset (entities,) [m].
    """

    joint_names = JOINTS

    def __init__(self, folder: Path | None = None, lockstep: bool = False) -> None:
        """Start nothing yet; ``reset`` does.

        Args:
            folder: for logs; where None a temporary one, which goes with ``close``.
            lockstep: time goes on in ``advance`` only.
        """
        self._is_temporary = folder is None
        self._folder = folder or Path(tempfile.mkdtemp(prefix='tendon-gazebo-'))
        self._lockstep = lockstep
        joints = UrdfLinks(URDF).joints.values()
        self._moving = [joint for joint in joints if joint.kind != 'fixed']
        self.world = World()
        model = self.world.model
        self._lower, self._upper = model.jnt_range[[model.joint(n).id for n in JOINTS]].T
        self._running: RunningWorld | None = None
        self._start_s = self.time_s = self.picture_s = 0.0
        self._target = self.positions = self.velocities = np.zeros(len(JOINTS))
        self._heights = self.risen_m = np.zeros(0)

    def reset(self, scene: SceneSpec) -> None:
        """Start Gazebo anew with a scene, the arm at rest in the scene's pose.

        Raises:
            GazeboUnavailable, GazeboLost: it does not start.
        """
        self.close()
        self.world.show(scene)
        names = [entity_model(index) for index in range(len(scene.entities))]
        names += [f'{MODEL}::{link}' for joint in self._moving for link in (
            joint.parent, joint.child)]
        sdf = world_sdf(scene)
        self._running = self._started(sdf, names)
        joints = np.array(scene.joints)
        self.positions, self.velocities = joints.copy(), np.zeros(len(joints))
        self._target = joints.copy()
        if any(entity.held for entity in scene.entities):
            self._target[-1] = 0.0
        self.command({})
        self._running.wait_for_picture()
        self._start_s, self.time_s, self.picture_s = self._running.time_s, 0.0, 0.0
        self._mirror(0.0)
        self._heights = self._entity_heights()
        self.risen_m = np.zeros(len(self._heights))

    def read(self) -> JointReading:
        """Read the joints."""
        return JointReading.of(self.time_s, self.positions, self.velocities)

    def command(
        self, positions: Mapping[str, float], period_s: float = CONTROL_PERIOD_S
    ) -> None:
        """Set where the joints shall be one period from now; joints not named keep their target.

        Raises:
            CommandError: an unknown joint or a value that is not finite.
        """
        target = targets_after(self._target, positions)
        most = TOP_SPEED * max(period_s, CONTROL_PERIOD_S / 10)
        target = np.clip(target, self._target - most, self._target + most)
        self._target = np.clip(target, self._lower, self._upper)
        goals = dict(zip(JOINTS, map(float, self._target), strict=True))
        self._gazebo.command({**goals, MIMIC_JOINT: goals[JOINTS[-1]]})

    def advance(self, seconds: float) -> None:
        """Let a time pass [s]. Raises GazeboLost."""
        before_s = self.time_s
        self._gazebo.advance(seconds)
        self.time_s = self._gazebo.time_s - self._start_s
        self._mirror(self.time_s - before_s)
        np.maximum(self.risen_m, self._entity_heights() - self._heights, out=self.risen_m)

    def render(self) -> Image:
        """Return the newest picture (256, 256, 3), RGB; ``picture_s`` says when it was taken."""
        picture = self._gazebo.picture
        self.picture_s = picture.time_s - self._start_s
        return picture.rgb

    @property
    def processes(self) -> tuple[int, int]:
        """Process ids of gzserver and of its display."""
        return self._gazebo.processes

    def pause(self, is_paused: bool) -> None:
        """Stop or start the time, as a person would in Gazebo's window."""
        self._gazebo.pause(is_paused)

    def close(self) -> None:
        """End Gazebo; ``reset`` starts it again."""
        if self._running is not None:
            self._running.close()
            self._running = None
            if self._is_temporary:
                shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _gazebo(self) -> RunningWorld:
        if self._running is None:
            raise SimError('Gazebo has not been started: call reset first')
        return self._running

    def _started(self, sdf: str, names: list[str]) -> RunningWorld:
        """Start a world, a second time where the first was deaf: gzserver's start has races."""
        try:
            return RunningWorld(sdf, self._folder, names, self._lockstep)
        except GazeboLost:
            return RunningWorld(sdf, self._folder, names, self._lockstep)

    def _mirror(self, seconds: float) -> None:
        """Show Gazebo's newest poses to the MuJoCo world, and find out what touches what."""
        poses, data = self._gazebo.poses(), self.world.data
        former, joints = data.qpos.copy(), self._joints(poses)
        for name, value in joints.items():
            data.qpos[self.world.model.joint(name).qposadr[0]] = value
        for index in range(len(self.world.scene.entities)):
            self._place(index, poses[entity_model(index)])
        data.qvel[:] = 0.0
        if seconds > 0.0:
            mujoco.mj_differentiatePos(self.world.model, data.qvel, seconds, former, data.qpos)
        now = np.array([joints[name] for name in JOINTS])
        if seconds > 0.0:
            self.velocities = (now - self.positions) / seconds
        self.positions = now
        mujoco.mj_forward(self.world.model, data)

    def _joints(self, poses: Mapping[str, Array]) -> dict[str, float]:
        """Return joint positions from the poses of links."""
        return {
            joint.name: position_between(
                joint, poses[f'{MODEL}::{joint.parent}'], poses[f'{MODEL}::{joint.child}'])
            for joint in self._moving
        }

    def _place(self, index: int, pose: Array) -> None:
        model = self.world.model
        start = model.jnt_qposadr[model.body_jntadr[self.world.body(index)]]
        turn = np.zeros(4)
        mujoco.mju_mat2Quat(turn, pose[:3, :3].ravel())
        self.world.data.qpos[start:start + 7] = [*pose[:3, 3], *turn]

    def _entity_heights(self) -> Array:
        bodies = [self.world.body(i) for i in range(len(self.world.scene.entities))]
        heights: Array = self.world.data.xpos[bodies, 2].copy()
        return heights

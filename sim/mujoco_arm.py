# SPDX-License-Identifier: Apache-2.0
"""The simulated arm on its table: servos, contacts, joint sensors, camera, time.

Follows position commands like the controller of a real arm: a new target is approached at
constant speed over one control period, never faster than the joint allows. Knows no plans, no
tasks and no ROS.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from sim.arm_port import CONTROL_PERIOD_S, JointReading, targets_after, TOP_SPEED
from sim.arm_pose import JOINTS
from sim.camera import Camera, Image
from sim.display import mujoco
from sim.model import DAMPING, STIFFNESS
from sim.scene import SceneSpec
from sim.world import World

Array = NDArray[np.float64]


class MujocoArm:
    """Arm, table and objects under physics.

    Attributes:
        joint_names: commanded joints in manifest order.
        world: the scene and its MuJoCo model.
        risen_m: greatest rise of each entity since the last reset (entities,) [m].
    """

    joint_names = JOINTS

    def __init__(
        self,
        world: World | None = None,
        seed: int = 0,
        position_noise: float = 0.0,
        velocity_noise: float = 0.0,
    ) -> None:
        """Build the world.

        Args:
            world: reused one; None builds a new one.
            seed: of the sensor noise.
            position_noise: standard deviation of measured positions [rad], fingers [m] / 10.
            velocity_noise: the same of velocities [rad/s], fingers [m/s] / 10.
        """
        self.world = world or World()
        self._rng = np.random.default_rng(seed)
        self._noise = position_noise, velocity_noise
        self._camera: Camera | None = None
        model = self.world.model
        self._qpos = np.array([model.joint(name).qposadr[0] for name in JOINTS])
        self._qvel = np.array([model.joint(name).dofadr[0] for name in JOINTS])
        self._lower, self._upper = model.jnt_range[[model.joint(n).id for n in JOINTS]].T
        self._lead_s = np.divide(DAMPING, STIFFNESS)
        self._target = self._reference = self._slope = self._velocity = np.zeros(len(JOINTS))
        self._hold(self.positions)
        self._bodies: list[int] = []
        self._start_heights = self.risen_m = np.zeros(0)

    def reset(self, scene: SceneSpec) -> None:
        """Show a scene and start its time at zero, the arm at rest in the scene's pose."""
        self.world.show(scene)
        mujoco.mj_forward(self.world.model, self.world.data)
        joints = np.array(scene.joints)
        if any(entity.held for entity in scene.entities):
            joints[-1] = 0.0  # squeeze, or it would drop
        self._hold(joints)
        self._bodies = [self.world.body(i) for i in range(len(scene.entities))]
        self._start_heights = self._heights()
        self.risen_m = np.zeros(len(self._start_heights))

    @property
    def time_s(self) -> float:
        """Simulated time since the last reset."""
        return float(self.world.data.time)

    @property
    def picture_s(self) -> float:
        """Simulated time of a picture that is taken now [s]."""
        return self.time_s

    @property
    def positions(self) -> Array:
        """True positions (joints,) of the commanded joints [rad], finger [m]."""
        positions: Array = self.world.data.qpos[self._qpos]
        return positions

    @property
    def velocities(self) -> Array:
        """True velocities (joints,) of the commanded joints [rad/s], finger [m/s]."""
        velocities: Array = self.world.data.qvel[self._qvel]
        return velocities

    def read(self) -> JointReading:
        """Read the joint sensors, with the noise that was asked for."""
        scale = np.array([1.0] * 6 + [0.1])
        position, velocity = (
            value + self._rng.normal(0.0, 1.0, len(JOINTS)) * scale * noise if noise else value
            for value, noise in zip((self.positions, self.velocities), self._noise, strict=True)
        )
        return JointReading.of(self.time_s, position, velocity)

    def command(
        self, positions: Mapping[str, float], period_s: float = CONTROL_PERIOD_S
    ) -> None:
        """Set where the joints shall be one period from now; joints not named keep their target.

        Positions beyond the range of a joint stop at its end, as a drive does.

        Raises:
            CommandError: an unknown joint or a value that is not finite.
        """
        target = targets_after(self._target, positions)
        self._target = np.clip(target, self._lower, self._upper)
        slope = (self._target - self._reference) / max(period_s, CONTROL_PERIOD_S / 10)
        self._slope = np.clip(slope, -TOP_SPEED, TOP_SPEED)

    def advance(self, seconds: float) -> None:
        """Run the physics for a time [s]; what is left of a step is run next time."""
        model, data = self.world.model, self.world.data
        step_s = model.opt.timestep
        self._due_s += seconds
        while self._due_s > 0.5 * step_s:
            self._due_s -= step_s
            self._step_reference(step_s)
            data.ctrl[:] = self._reference + self._lead_s * self._velocity
            mujoco.mj_step(model, data)
            np.maximum(self.risen_m, self._heights() - self._start_heights, out=self.risen_m)

    def render(self) -> Image:
        """Take a picture (256, 256, 3), RGB, of what the camera sees now."""
        if self._camera is None:
            self._camera = Camera(self.world.model)
        self.world.update()
        return self._camera.render(self.world.data, self.world.scene.appearance.shadows)

    def close(self) -> None:
        """Free the display; the arm cannot take pictures afterwards without opening it again."""
        if self._camera is not None:
            self._camera.close()
            self._camera = None

    def _heights(self) -> Array:
        heights: Array = self.world.data.xpos[self._bodies, 2]
        return heights

    def _hold(self, joints: Array) -> None:
        self._target = joints.copy()
        self._reference = joints.copy()
        self._slope = np.zeros(len(joints))
        self._velocity = np.zeros(len(joints))
        self._due_s = 0.0

    def _step_reference(self, step_s: float) -> None:
        """Move the reference towards the target, not past it."""
        left = self._target - self._reference
        move = np.where(np.abs(left) > np.abs(self._slope) * step_s, self._slope * step_s, left)
        self._reference += move
        self._velocity = np.where(move == 0.0, 0.0, self._slope)

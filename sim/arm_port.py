# SPDX-License-Identifier: Apache-2.0
"""What the rest needs of a simulated arm, whichever physics it has.

`sim.mujoco_arm` and `sim.gazebo.gazebo_arm` offer it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sim.arm_pose import JOINTS
from sim.camera import Image
from sim.errors import CommandError
from sim.scene import SceneSpec
from sim.world import World

Array = NDArray[np.float64]

CONTROL_PERIOD_S = 0.02
# What the drives can do, from the URDF [rad/s], finger [m/s].
TOP_SPEED = np.array([3.14] * 6 + [0.3])


@dataclass(frozen=True)
class JointReading:
    """Joint sensors at one time.

    Attributes:
        time_s: simulated time of the reading.
        positions: by joint name [rad], fingers [m].
        velocities: by joint name [rad/s], fingers [m/s].
    """

    time_s: float
    positions: dict[str, float]
    velocities: dict[str, float]

    @classmethod
    def of(cls, time_s: float, positions: Array, velocities: Array) -> JointReading:
        """Return a reading of arrays (joints,) in manifest order."""
        return cls(
            time_s,
            dict(zip(JOINTS, map(float, positions), strict=True)),
            dict(zip(JOINTS, map(float, velocities), strict=True)),
        )


def targets_after(former: Array, positions: Mapping[str, float]) -> Array:
    """Return targets (joints,) after a command; joints that are not named keep theirs.

    Raises:
        CommandError: an unknown joint or a value that is not finite.
    """
    targets: Array = former.copy()
    for name, value in positions.items():
        if name not in JOINTS:
            raise CommandError('joint', name, JOINTS)
        if not np.isfinite(value):
            raise CommandError(f'position of {name}', value, 'finite numbers')
        targets[JOINTS.index(name)] = value
    return targets


class SimulatedArm(Protocol):
    """Arm, table and objects under physics."""

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Commanded joints in manifest order."""
        ...

    @property
    def risen_m(self) -> Array:
        """Greatest rise of each entity since the last reset (entities,) [m]."""
        ...

    @property
    def world(self) -> World:
        """Where everything is and what touches what, as a MuJoCo world."""
        ...

    @property
    def time_s(self) -> float:
        """Simulated time since the last reset."""
        ...

    @property
    def picture_s(self) -> float:
        """Simulated time at which the newest picture was taken."""
        ...

    @property
    def positions(self) -> Array:
        """True positions (joints,) of the commanded joints [rad], finger [m]."""
        ...

    @property
    def velocities(self) -> Array:
        """True velocities (joints,) of the commanded joints [rad/s], finger [m/s]."""
        ...

    def reset(self, scene: SceneSpec) -> None:
        """Show a scene and start its time at zero, the arm at rest in the scene's pose."""
        ...

    def read(self) -> JointReading:
        """Read the joint sensors."""
        ...

    def command(self, positions: Mapping[str, float], period_s: float = CONTROL_PERIOD_S) -> None:
        """Set where the joints shall be one period from now. Raises CommandError."""
        ...

    def advance(self, seconds: float) -> None:
        """Let a time pass [s]."""
        ...

    def render(self) -> Image:
        """Return the newest picture (256, 256, 3), RGB."""
        ...

    def close(self) -> None:
        """Free what it holds; ``reset`` takes it again."""
        ...

# SPDX-License-Identifier: Apache-2.0
"""Makes a simulated arm by the name of its simulator."""

from __future__ import annotations

from pathlib import Path

from sim.arm_port import SimulatedArm
from sim.errors import SceneError

SIMULATORS = ('mujoco', 'gazebo')


def make_arm(
    simulator: str, seed: int = 0, position_noise: float = 0.0, velocity_noise: float = 0.0,
    folder: Path | None = None, lockstep: bool = False,
) -> SimulatedArm:
    """Make an arm; whatever one simulator alone needs is imported for it alone.

    Args:
        simulator: one of SIMULATORS.
        seed: of the sensor noise.
        position_noise: see ``sim.mujoco_arm``; Gazebo has none.
        velocity_noise: the same.
        folder: for Gazebo's logs; a temporary one where None.
        lockstep: Gazebo's time goes on in ``advance`` only, as MuJoCo's always does.

    Raises:
        SceneError: an unknown simulator, or noise in Gazebo.
    """
    if simulator == 'mujoco':
        from sim.mujoco_arm import MujocoArm

        return MujocoArm(
            seed=seed, position_noise=position_noise, velocity_noise=velocity_noise)
    if simulator != 'gazebo':
        raise SceneError('simulator', simulator, SIMULATORS)
    if position_noise or velocity_noise:
        raise SceneError('noise of the joint sensors in Gazebo',
                         max(position_noise, velocity_noise), '0')
    from sim.gazebo.gazebo_arm import GazeboArm

    return GazeboArm(folder, lockstep)

# SPDX-License-Identifier: Apache-2.0
"""Gains of the joints' servos in Gazebo Classic.

Its controllers are explicit and run once per millisecond: damping times that step must stay below
the inertia at the joint in every pose, or the joint chatters.
"""

from __future__ import annotations

from sim.arm_pose import JOINTS
from sim.gazebo.joint_commands import Gains
from sim.model import FORCE_LIMIT, MIMIC_JOINT

_STIFFNESS = (4000.0, 4000.0, 2500.0, 400.0, 250.0, 60.0, 2000.0)
_DAMPING = (160.0, 160.0, 80.0, 12.0, 6.0, 1.0, 25.0)

GAINS = {
    name: Gains(stiffness, damping, limit)
    for name, stiffness, damping, limit in zip(JOINTS, _STIFFNESS, _DAMPING, FORCE_LIMIT,
                                               strict=True)
}
GAINS[MIMIC_JOINT] = GAINS[JOINTS[-1]]

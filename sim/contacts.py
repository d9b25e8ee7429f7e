# SPDX-License-Identifier: Apache-2.0
"""What touches what now, as the physics found it in its last step.

Knows bodies and fingers; knows no tasks.
"""

from __future__ import annotations

import numpy as np
from sim.arm_port import SimulatedArm
from sim.model import ARM, FINGERS


def touching(arm: SimulatedArm, first: int, second: int) -> bool:
    """Say whether two bodies touch, by their ids."""
    data = arm.world.data
    pairs = arm.world.model.geom_bodyid[data.contact.geom[:data.ncon]]
    return bool((np.sort(pairs, axis=1) == sorted((first, second))).all(axis=1).any())


def is_held(arm: SimulatedArm, index: int) -> bool:
    """Say whether both fingers touch an entity."""
    return all(_touching_fingers(arm, index))


def touches_fingers(arm: SimulatedArm, index: int) -> bool:
    """Say whether any finger touches an entity."""
    return any(_touching_fingers(arm, index))


def touches_arm(arm: SimulatedArm, index: int) -> bool:
    """Say whether anything of the arm touches an entity."""
    data, model = arm.world.data, arm.world.model
    geoms = data.contact.geom[:data.ncon]
    mine = model.geom_bodyid[geoms] == arm.world.body(index)
    others = geoms[mine[:, ::-1]]   # what the entity's geoms touch
    return bool((model.geom_contype[others] == ARM).any())


def _touching_fingers(arm: SimulatedArm, index: int) -> list[bool]:
    body = arm.world.body(index)
    return [touching(arm, int(arm.world.model.body(name).id), body) for name in FINGERS]

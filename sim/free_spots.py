# SPDX-License-Identifier: Apache-2.0
"""Where a hand may set a thing down: free, within reach, in view, and clear of the gripper.

Reads the world as it is now, by the simulator's truth. Draws spots by the rules by which scenes
are drawn. Moves nothing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from sim.arm_port import SimulatedArm
from sim.placement import Placement, Spot, X_RANGE_M, Y_RANGE_M

Array = NDArray[np.float64]

# Half of what the open fingers cover at the table, along and across the line on which they close.
FINGERS_M = (0.014, 0.056)
CLEARANCE_M = 0.033     # half a diagonal of a cube, and a little
HIGH_M = 0.13           # a tool above this is in nobody's way
ATTEMPTS = 400


def tool_at(arm: SimulatedArm) -> tuple[Array, float]:
    """Give the tool's position (3,) [m] and its yaw [rad] in base, the yaw up to half a turn."""
    body = arm.world.model.body('tool0').id
    # The tool points down and closes along its own y axis.
    along = arm.world.data.xmat[body].reshape(3, 3)[:, 0]
    position: Array = arm.world.data.xpos[body].copy()
    return position, math.atan2(along[1], along[0])


def pose_of(arm: SimulatedArm, index: int) -> Spot:
    """Give x, y [m] and yaw [rad] of an entity in base."""
    x, y, _ = arm.world.centre(index)
    turn = arm.world.data.xmat[arm.world.body(index)].reshape(3, 3)
    return float(x), float(y), math.atan2(turn[1, 0], turn[0, 0])


def around(arm: SimulatedArm, index: int) -> Placement:
    """Give what stands on the table now, without one entity."""
    placement = Placement()
    for i, entity in enumerate(arm.world.scene.entities):
        if i != index:
            taken = placement.bins if entity.kind == 'bin' else placement.objects
            taken.append(pose_of(arm, i))
    return placement


def draw_spot(
    arm: SimulatedArm, index: int, rng: Generator, near: tuple[float, float],
    least_m: float = 0.0, most_m: float = math.inf,
) -> Spot | None:
    """Draw a free spot for an entity at some distance [m] from a point; None if there is none."""
    placement, (tool, yaw) = around(arm, index), tool_at(arm)
    for _ in range(ATTEMPTS):
        if math.isinf(most_m):
            x, y = rng.uniform(*X_RANGE_M), rng.uniform(*Y_RANGE_M)
        else:
            distance, angle = rng.uniform(least_m, most_m), rng.uniform(-math.pi, math.pi)
            x, y = near[0] + distance * math.cos(angle), near[1] + distance * math.sin(angle)
        spot = float(x), float(y), float(rng.uniform(-math.pi / 4, math.pi / 4))
        away = math.hypot(x - near[0], y - near[1]) >= least_m
        if away and on_table(x, y) and placement.is_free(spot) and is_clear(tool, yaw, x, y):
            return spot
    return None


def on_table(x: float, y: float) -> bool:
    """Say whether a point is where scenes put things: within reach and in view."""
    return X_RANGE_M[0] <= x <= X_RANGE_M[1] and Y_RANGE_M[0] <= y <= Y_RANGE_M[1]


def is_clear(tool: Array, yaw: float, x: float, y: float) -> bool:
    """Say whether a thing may stand at a point under, or beside, the open gripper."""
    if tool[2] > HIGH_M:
        return True
    dx, dy = x - float(tool[0]), y - float(tool[1])
    along = abs(math.cos(yaw) * dx + math.sin(yaw) * dy)
    across = abs(math.cos(yaw) * dy - math.sin(yaw) * dx)
    return along > FINGERS_M[0] + CLEARANCE_M or across > FINGERS_M[1] + CLEARANCE_M

# SPDX-License-Identifier: Apache-2.0
"""Plans of tasks from the simulator's truth: what a perfect backbone would answer.

Same steps, heights and speeds as plans of the backbone. Serves demonstrations and tests of the
motion; a robot never sees it. Knows no joints and no time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
import math
from typing import Literal

from sim.entity import Entity, HALF_HEIGHT_M
from sim.scene import SceneSpec
from sim.tasks import Task

Manner = Literal['normal', 'slowly', 'low']

HOVER_M = 0.20
GRASP_M = {'cube': 0.030, 'ball': 0.028, 'cylinder': 0.035}
LOW_GRASP_M = 0.018         # for flat things: the finger tips just clear the table
PLACE_IN_BIN_M = 0.095
STACK_GAP_M = 0.004
PUSH_HEIGHT_M = 0.020
PUSH_OPENING = 0.2          # two finger tips side by side keep the thing from turning away
PUSH_RUN_UP_M = 0.075
PUSH_STANDOFF_M = 0.115     # tool to the bin's centre at the end: the thing touches the bin
SLOW = 0.35
SPEED = {'grasp': 0.5, 'place': 0.5, 'push': 0.4, 'lift': 0.7, 'move': 0.8}


@dataclass(frozen=True)
class OracleStep:
    """One skill of a plan.

    Attributes:
        skill: one of sim.expert.SKILLS.
        target: tool x, y, z [m] and yaw [rad] in base; zeros for 'home'.
        opening: of the gripper at the end, 0 closed to 1 open.
        speed: share of the joints' speed limits, (0, 1].
    """

    skill: str
    target: tuple[float, float, float, float]
    opening: float
    speed: float


def oracle_plan(task: Task, scene: SceneSpec, manner: Manner = 'normal') -> list[OracleStep]:
    """Steps that fulfil a task; none if the thing is absent.

    Args:
        task: what to do.
        scene: where things are.
        manner: 'slowly' takes SLOW of the usual speeds, 'low' grasps at LOW_GRASP_M.
    """
    if task.kind == 'absent':
        return []
    steps = _plan(task, scene)
    if manner == 'slowly':
        return [replace(step, speed=SLOW * step.speed) for step in steps]
    if manner == 'low':
        return [_lowered(step) if step.skill == 'grasp' else step for step in steps]
    return steps


def _lowered(step: OracleStep) -> OracleStep:
    x, y, _, yaw = step.target
    return replace(step, target=(x, y, LOW_GRASP_M, yaw))


def _plan(task: Task, scene: SceneSpec) -> list[OracleStep]:
    a = scene.entities[task.a]
    if task.kind == 'pick':
        return [*_take(a), _step('hold', a.x, a.y, HOVER_M, 0.0)]
    b = scene.entities[task.b]
    steps = _push(a, b) if task.kind == 'push' else _take(a) + _put_down(a, b)
    return [*steps, OracleStep('home', (0.0, 0.0, 0.0, 0.0), 1.0, 1.0)]


def _take(a: Entity) -> list[OracleStep]:
    return [
        _step('reach', a.x, a.y, HOVER_M, 1.0),
        _step('grasp', a.x, a.y, GRASP_M[a.kind], 0.0),
        _step('lift', a.x, a.y, HOVER_M, 0.0),
    ]


def _put_down(a: Entity, b: Entity) -> list[OracleStep]:
    height = PLACE_IN_BIN_M
    if b.kind != 'bin':
        height = 2 * HALF_HEIGHT_M[b.kind] + GRASP_M[a.kind] + STACK_GAP_M
    return [
        _step('move', b.x, b.y, HOVER_M, 0.0),
        _step('place', b.x, b.y, height, 1.0),
        _step('lift', b.x, b.y, HOVER_M, 1.0),
    ]


def _push(a: Entity, b: Entity) -> list[OracleStep]:
    heading = math.atan2(b.y - a.y, b.x - a.x)   # as yaw, this turns the fingers across the way
    dx, dy = math.cos(heading), math.sin(heading)
    start = a.x - dx * PUSH_RUN_UP_M, a.y - dy * PUSH_RUN_UP_M
    end = b.x - dx * PUSH_STANDOFF_M, b.y - dy * PUSH_STANDOFF_M
    return [
        _step('reach', *start, HOVER_M, PUSH_OPENING, heading),
        _step('reach', *start, PUSH_HEIGHT_M, PUSH_OPENING, heading),
        _step('push', *end, PUSH_HEIGHT_M, PUSH_OPENING, heading),
        _step('lift', *end, HOVER_M, PUSH_OPENING, heading),
    ]


def _step(
    skill: str, x: float, y: float, z: float, opening: float, yaw: float = 0.0
) -> OracleStep:
    return OracleStep(skill, (x, y, z, yaw), opening, SPEED.get(skill, 1.0))

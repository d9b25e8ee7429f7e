# SPDX-License-Identifier: Apache-2.0
"""Tasks drawn from a seed, and whether they were fulfilled, by the simulator's own truth.

A robot never sees what this module looks at; it serves tests, evaluation and demonstrations.
Knows scenes and contacts; knows no plans and no policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sim.arm_port import SimulatedArm
from sim.contacts import is_held, touches_fingers, touching
from sim.display import mujoco
from sim.entity import BIN_WALL_M, Entity
from sim.errors import SceneError
from sim.instructions import Instruction, sample, Wording
from sim.scene import draw_scene, SceneSpec, Split
from sim.variation import Axis, vary

TaskKind = Literal['pick', 'put', 'stack', 'push', 'absent']
TASK_KINDS: tuple[TaskKind, ...] = ('pick', 'put', 'stack', 'push', 'absent')

LIFTED_M = 0.08
TOUCH_GAP_M = 0.02
PUSH_RISE_M = 0.02
STILL_M_S = 0.02
MOVED_M = 0.01
PUSH_APPROACH_M = 0.075
PUSH_CORRIDOR_M = 0.062

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """Something to do in a scene.

    Attributes:
        kind: one of TASK_KINDS; 'absent' names a thing that is not there.
        a: index of the thing to handle, -1 if it is absent.
        b: index of the place, -1 if there is none.
        instruction: the sentence for the robot.
    """

    kind: TaskKind
    a: int
    b: int
    instruction: str

    def success(self, arm: SimulatedArm) -> bool:
        """Say whether the task is fulfilled now.

        For 'absent' that means that nothing was moved; whether the robot also said so is for
        the caller to judge.
        """
        judge = {
            'pick': _is_picked,
            'put': _is_inside,
            'stack': _is_stacked,
            'push': _is_pushed,
            'absent': _is_untouched,
        }[self.kind]
        return judge(arm, self)


def draw_task(
    seed: int,
    split: Split = 'train',
    wording: Wording = 'known',
    kind: TaskKind | None = None,
    axis: Axis = 'none',
) -> tuple[SceneSpec, Task]:
    """Draw a scene and a task that the arm can do in it.

    Args:
        seed: fixes scene and task, together with the other arguments.
        split: 'test' scenes may show held-out (colour, kind) pairs.
        wording: 'known' sentences were trained on, 'unseen' ones were not.
        kind: wanted kind of task; None draws one.
        axis: what differs from the scenes of the training; see `sim.variation`.

    Raises:
        SceneError: an unknown kind.
    """
    if kind is not None and kind not in TASK_KINDS:
        raise SceneError('kind of task', kind, TASK_KINDS)
    rng = np.random.default_rng(np.random.SeedSequence([seed, 31]))
    chosen = kind or TASK_KINDS[rng.integers(len(TASK_KINDS))]
    attempt = 0
    while True:
        scene = vary(draw_scene((seed, attempt), split), axis, rng)
        task = _task(rng, scene, chosen, wording)
        if task is not None:
            return scene, task
        attempt += 1


def _task(
    rng: np.random.Generator, scene: SceneSpec, kind: TaskKind, wording: Wording
) -> Task | None:
    """Draw a task of this kind, or None if the scene does not offer one."""
    things = scene.entities
    novel = scene.split == 'test'
    said: Instruction
    if kind == 'absent':
        said = sample(rng, things, wording, novel, outcome='refused')
        return Task(kind, said.a_index, said.b_index, said.text)
    try:
        said = sample(rng, things, wording, novel, outcome='steps', task=kind)
    except ValueError:
        return None
    if kind == 'push' and not push_is_clear(scene.entities, said.a_index, said.b_index):
        return None
    return Task(kind, said.a_index, said.b_index, said.text)


def push_is_clear(entities: Sequence[Entity], a: int, b: int) -> bool:
    """Say whether nothing else stands where the gripper pushes thing a to bin b."""
    start = np.array([entities[a].x, entities[a].y])
    end = np.array([entities[b].x, entities[b].y])
    length = float(np.linalg.norm(end - start))
    along = (end - start) / length
    for i, other in enumerate(entities):
        if i in (a, b):
            continue
        offset = np.array([other.x, other.y]) - start
        near = np.clip(offset @ along, -PUSH_APPROACH_M, length)
        room = PUSH_CORRIDOR_M + (0.045 if other.kind == 'bin' else 0.0)
        if np.linalg.norm(offset - near * along) < room:
            return False
    return True


def _is_picked(arm: SimulatedArm, task: Task) -> bool:
    rise = arm.world.centre(task.a)[2] - arm.world.scene.entities[task.a].z
    return bool(rise >= LIFTED_M) and is_held(arm, task.a)


def _is_inside(arm: SimulatedArm, task: Task) -> bool:
    data = arm.world.data
    bin_body = arm.world.body(task.b)
    offset = arm.world.centre(task.a) - data.xpos[bin_body]
    local = data.xmat[bin_body].reshape(3, 3).T @ offset
    place = arm.world.scene.entities[task.b]
    inner = place.radius_m - BIN_WALL_M
    return bool(
        np.abs(local[:2]).max() < inner
        and abs(local[2]) < place.half_height_m
        and _is_left_alone(arm, task.a)
    )


def _is_stacked(arm: SimulatedArm, task: Task) -> bool:
    top, base = (arm.world.scene.entities[i] for i in (task.a, task.b))
    offset = arm.world.centre(task.a) - arm.world.centre(task.b)
    return bool(
        math.hypot(offset[0], offset[1]) < base.radius_m
        and abs(offset[2] - top.half_height_m - base.half_height_m) < 0.006
        and touching(arm, arm.world.body(task.a), arm.world.body(task.b))
        and _is_left_alone(arm, task.a)
    )


def _is_pushed(arm: SimulatedArm, task: Task) -> bool:
    world = arm.world
    thing = world.model.body_geomadr[world.body(task.a)]
    first = world.model.body_geomadr[world.body(task.b)]
    walls = range(first, first + world.model.body_geomnum[world.body(task.b)])
    gap = min(
        mujoco.mj_geomDistance(world.model, world.data, thing, wall, 1.0, None) for wall in walls
    )
    moved = np.linalg.norm(_shift(arm, task.a)[:2])
    return bool(
        gap <= TOUCH_GAP_M
        and moved > MOVED_M
        and arm.risen_m[task.a] < PUSH_RISE_M
        and _is_still(arm, task.a)
    )


def _is_untouched(arm: SimulatedArm, task: Task) -> bool:
    count = len(arm.world.scene.entities)
    return all(np.linalg.norm(_shift(arm, i)) < MOVED_M for i in range(count))


def _shift(arm: SimulatedArm, index: int) -> Array:
    """Displacement (3,) of an entity since the start [m]."""
    entity = arm.world.scene.entities[index]
    return np.subtract(arm.world.centre(index), (entity.x, entity.y, entity.z))


def _is_left_alone(arm: SimulatedArm, index: int) -> bool:
    return not touches_fingers(arm, index) and _is_still(arm, index)


def _is_still(arm: SimulatedArm, index: int) -> bool:
    start = arm.world.model.body_dofadr[arm.world.body(index)]
    return bool(np.linalg.norm(arm.world.data.qvel[start:start + 3]) < STILL_M_S)

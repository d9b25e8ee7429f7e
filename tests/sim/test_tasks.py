# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np
import pytest
from sim.arm_pose import HOME, JOINTS, joints_over
from sim.entity import Entity
from sim.errors import SceneError
from sim.mujoco_arm import MujocoArm
from sim.scene import SceneSpec
from sim.tasks import draw_task, push_is_clear, Task, TASK_KINDS
from sim.variation import vary

CUBE = Entity('cube', 'red', 0.42, -0.1, 0.022)
CAN = Entity('cylinder', 'blue', 0.5, 0.15, 0.025)
BIN = Entity('bin', 'white', 0.5, 0.05, 0.025)


@pytest.fixture(scope='module')
def arm():
    return MujocoArm()


def settled(arm, *entities):
    """Show the entities and let them rest."""
    arm.reset(SceneSpec((0,), 'train', entities))
    arm.advance(0.3)
    return arm


def teleport(arm, index, x, y, z):
    """Move an entity without touching it, and let it rest."""
    start = arm.world.model.body(arm.world.body(index)).jntadr[0]
    address = arm.world.model.jnt_qposadr[start]
    arm.world.data.qpos[address:address + 3] = x, y, z
    arm.advance(0.4)


@pytest.mark.parametrize('kind', TASK_KINDS)
@pytest.mark.parametrize('split', ['train', 'test'])
def test_tasks_are_open_at_the_start(arm, kind, split):
    """A drawn task repeats from its seed and is not fulfilled yet, unless nothing is to do."""
    scene, task = draw_task(4, split, kind=kind)
    assert (scene, task) == draw_task(4, split, kind=kind)
    arm.reset(scene)
    arm.advance(0.2)
    assert task.kind == kind
    assert task.success(arm) is (kind == 'absent')


def test_put(arm):
    """An object in the bin counts, beside it or above it does not."""
    task = Task('put', 0, 1, '')
    assert not task.success(settled(arm, CUBE, BIN))
    assert task.success(settled(arm, replace(CUBE, x=0.51, y=0.06, z=0.028), BIN))
    assert not task.success(settled(arm, replace(CUBE, x=0.42), BIN))
    arm.reset(SceneSpec((0,), 'train', (replace(CUBE, x=0.5, y=0.05, z=0.2), BIN)))
    arm.advance(0.05)
    assert not task.success(arm)
    arm.advance(1.0)
    assert task.success(arm)


def test_stack(arm):
    """Standing on the other object counts, standing beside it or swapped does not."""
    top = replace(CAN, x=CUBE.x + 0.003, y=CUBE.y, z=0.044 + 0.025)
    assert Task('stack', 0, 1, '').success(settled(arm, top, CUBE))
    assert not Task('stack', 1, 0, '').success(settled(arm, top, CUBE))
    assert not Task('stack', 0, 1, '').success(settled(arm, CAN, CUBE))


def test_push(arm):
    """Moved to within two centimetres of the wall counts, unless it was lifted on the way."""
    task = Task('push', 0, 1, '')
    assert not task.success(settled(arm, CUBE, BIN))
    teleport(arm, 0, 0.5, 0.05 - 0.06 - 0.022 - 0.015, 0.022)
    assert task.success(arm)
    teleport(arm, 0, 0.5, 0.05 - 0.06 - 0.022 - 0.03, 0.022)
    assert not task.success(arm)
    settled(arm, CUBE, BIN)
    teleport(arm, 0, 0.5, 0.05 - 0.06 - 0.022 - 0.015, 0.06)
    assert not task.success(arm)


def test_pick(arm):
    """High between both fingers counts; on the table, or held low, does not."""
    task = Task('pick', 0, -1, '')
    settled(arm, CUBE)
    low, high = 0.06, 0.15
    for z, finger in ((high, 0.042), (0.02, 0.042), (0.02, 0.0), (low, 0.0), (high, 0.0)):
        goal = joints_over(CUBE.x, CUBE.y, z, 0.0, finger)
        start = arm.positions.copy()
        for s in np.linspace(0, 1, 40):
            target = start + s * np.subtract(goal, start)
            arm.command(dict(zip(JOINTS, target, strict=True)))
            arm.advance(0.02)
        arm.advance(0.1)
        assert task.success(arm) is (z == high and finger == 0.0)


def test_absent(arm):
    """Nothing moved counts; anything moved does not."""
    task = Task('absent', -1, -1, '')
    assert task.success(settled(arm, CUBE, BIN))
    teleport(arm, 0, 0.40, -0.12, 0.022)
    assert not task.success(arm)


def test_pushes_need_a_free_path():
    """A thing between object and bin, or where the gripper comes down, blocks the push."""
    start, goal = replace(CUBE, x=0.45, y=-0.15), replace(BIN, x=0.45, y=0.1)
    assert push_is_clear([start, goal, replace(CAN, x=0.56, y=0.0)], 0, 1)
    assert not push_is_clear([start, goal, replace(CAN, x=0.46, y=-0.03)], 0, 1)
    assert not push_is_clear([start, goal, replace(CAN, x=0.45, y=-0.23)], 0, 1)


def test_axes_change_one_thing():
    """The visual axis leaves the things alone, the action axis leaves the names alone."""
    scene, _ = draw_task(2)
    rng = np.random.default_rng(0)
    odd = vary(scene, 'visual', rng)
    assert odd.entities == scene.entities and odd.appearance != scene.appearance
    odd = vary(scene, 'action', rng)
    assert [e.name for e in odd.entities] == [e.name for e in scene.entities]
    assert odd.joints != HOME and odd.appearance == scene.appearance
    assert vary(scene, 'none', rng) is scene


def test_unknown_choices_are_refused():
    """Unknown kinds and axes are named together with the known ones."""
    with pytest.raises(SceneError, match='pick, put, stack, push, absent'):
        draw_task(1, kind='juggle')
    with pytest.raises(SceneError, match='none, visual, action'):
        draw_task(1, axis='acoustic')

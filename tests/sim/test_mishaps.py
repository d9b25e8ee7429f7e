# SPDX-License-Identifier: Apache-2.0
"""Promises of mishaps: they strike who goes on as usual and spare who does what helps."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sim.arm_geometry import ArmGeometry
from sim.arm_limits import ArmLimits
from sim.episode import run_episode
from sim.errors import SceneError
from sim.expert import Expert
from sim.free_spots import around, is_clear, on_table, pose_of, tool_at
from sim.mischief import Mischief
from sim.mishaps import draw_mishap, fits, hand_move, MISHAPS, prepare
from sim.mujoco_arm import MujocoArm
from sim.person import FREE, Person, YES
from sim.tasks import draw_task, Task

ROOT = Path(__file__).parents[2]
EXPERT = Expert(
    ArmGeometry.from_urdf(ROOT / 'sim' / 'assets' / 'tendon_arm.urdf'),
    ArmLimits.from_manifest(
        ROOT / 'onboard_decoder' / 'robots' / 'tendon_arm' / 'manifest.yaml'))


@pytest.fixture(scope='module')
def arm() -> Iterator[MujocoArm]:
    """One arm for all."""
    made = MujocoArm()
    yield made
    made.close()


class Run:
    """One task done by the oracle's one plan while a mishap lies in wait."""

    def __init__(self, arm, seed, task_kind, kind, manner='normal', ask=False):
        drawn, self.task = draw_task(seed, kind=task_kind)
        self.mishap = draw_mishap(seed, self.task, (kind,))
        self.scene = prepare(drawn, self.mishap)
        self.mischief = None
        self.moves = []     # simulated time, tool, thing before, thing after
        self.answers = []
        self._ask, self._arm = ask, arm
        self.is_success = run_episode(
            arm, self.scene, self.task, EXPERT, self._watch, manner).success

    def _watch(self, arm):
        if self.mischief is None:
            self.mischief = Mischief(arm, self.mishap)
            if self._ask:
                person = Person(self.mishap)
                self.answers = [person.answer('please clear it', arm) for _ in range(2)]
        before, tool = pose_of(arm, self.task.a), tool_at(arm)
        self.mischief.step()
        after = pose_of(arm, self.task.a)
        if np.hypot(after[0] - before[0], after[1] - before[1]) > 0.01:
            self.moves.append((tool, before, after, around(arm, self.task.a)))


@pytest.mark.parametrize(('kind', 'manner', 'task'), [
    ('slick', 'slowly', 'put'), ('slick', 'slowly', 'stack'), ('flat', 'low', 'put'),
    ('flat', 'low', 'pick'),
])
def test_lasting_mishaps_need_another_manner(arm, kind, manner, task):
    """A slick or flat thing is lost or missed as usual, and done in the manner that helps."""
    for seed in range(3):
        assert not Run(arm, seed, task, kind).is_success, seed
        assert Run(arm, seed, task, kind, manner).is_success, seed


def test_ordinary_things_can_be_taken_in_any_manner(arm):
    """Slow and low grasps do for things that need neither."""
    for manner in ('slowly', 'low'):
        for seed in range(3):
            assert Run(arm, seed, 'put', 'none', manner).is_success, (manner, seed)


@pytest.mark.slow
@pytest.mark.parametrize(('kind', 'manner'), [('slick', 'slowly'), ('flat', 'low')])
def test_manners_part_success_from_failure(arm, kind, manner):
    """At least nine of ten fail as usual, and nine of ten succeed in the manner that helps."""
    usual, better = [], []
    for seed in range(100, 110):
        for task in ('pick', 'put', 'stack'):
            usual.append(Run(arm, seed, task, kind).is_success)
            better.append(Run(arm, seed, task, kind, manner).is_success)
    assert sum(usual) <= 3
    assert sum(better) >= 27


@pytest.mark.parametrize('task', ['put', 'pick'])
def test_a_hand_shifts_the_thing_once_to_a_free_place(arm, task):
    """Moved means once, by 4 cm or more, to a free place, and not under or into the fingers."""
    for seed in range(4):
        run = Run(arm, seed, task, 'moved')
        assert len(run.moves) == 1, seed
        (tool, yaw), before, after, placement = run.moves[0]
        assert np.hypot(after[0] - before[0], after[1] - before[1]) > 0.04
        assert placement.is_free(after) and on_table(*after[:2])
        assert is_clear(tool, yaw, *after[:2])
        assert run.mischief.happened_s is not None
        assert not run.is_success


def test_a_dropped_thing_lies_where_it_can_be_taken(arm):
    """After the drop the thing stands free on the table, and it is dropped only once."""
    for seed in range(3):
        run = Run(arm, seed, 'stack', 'dropped')
        spot = pose_of(arm, run.task.a)
        thing = run.scene.entities[run.task.a]
        assert run.mischief.happened_s is not None and not run.is_success
        assert on_table(*spot[:2]) and around(arm, run.task.a).is_free(spot)
        assert arm.world.centre(run.task.a)[2] == pytest.approx(thing.half_height_m, abs=2e-3)


@pytest.mark.parametrize('task', ['put', 'stack'])
def test_a_person_clears_a_taken_place(arm, task):
    """A taken place makes the task fail, unless a person is asked, who then says it is free."""
    for seed in range(3):
        run = Run(arm, seed, task, 'blocked')
        assert [thing.inside for thing in run.scene.entities].count(run.task.b) == 1
        assert not run.is_success, seed
        helped = Run(arm, seed, task, 'blocked', ask=True)
        assert helped.answers == [YES, FREE]
        assert helped.is_success, seed


def test_a_hand_moves_the_thing_in_time(arm):
    """At the time asked for, and not before, the thing goes to another free place."""
    scene, task = draw_task(1, kind='put')
    mischief = None
    arm.reset(scene)
    mischief = Mischief(arm, hand_move(1, task, at_s=0.3))
    start = pose_of(arm, task.a)
    while arm.time_s < 0.6:
        arm.advance(0.02)
        mischief.step()
        if mischief.happened_s is None:
            assert pose_of(arm, task.a)[:2] == pytest.approx(start[:2], abs=1e-3)
    assert mischief.happened_s == pytest.approx(0.3, abs=0.021)
    spot = pose_of(arm, task.a)
    assert np.hypot(spot[0] - start[0], spot[1] - start[1]) >= 0.1
    assert around(arm, task.a).is_free(spot)


def test_mishaps_repeat_from_their_seed(arm):
    """The same seed gives the same mishap, scene and run."""
    first, second = Run(arm, 5, 'put', 'moved'), Run(arm, 5, 'put', 'moved')
    assert first.mishap == second.mishap and first.scene == second.scene
    assert first.moves[0][1:3] == second.moves[0][1:3]


def test_only_what_fits_is_drawn():
    """Nothing happens to an absent thing; every kind that fits is drawn for some seed."""
    absent = Task('absent', -1, -1, '')
    assert draw_mishap(1, absent).kind == 'none'
    _, task = draw_task(0, kind='put')
    assert {draw_mishap(seed, task).kind for seed in range(60)} == set(MISHAPS)
    push = replace(task, kind='push')
    assert all(fits(draw_mishap(seed, push).kind, push) for seed in range(20))
    with pytest.raises(SceneError, match='moved, dropped, blocked'):
        draw_mishap(0, task, ('earthquake',))
    with pytest.raises(SceneError, match='pick, put, stack, push'):
        hand_move(0, absent, 1.0)


def test_prepared_scenes_differ_in_one_thing(arm):
    """Preparing a scene changes the thing or its place only, and every scene can be shown."""
    for seed in range(30):
        drawn, task = draw_task(seed, kind=('put', 'stack')[seed % 2])
        for kind in ('flat', 'blocked'):
            scene = prepare(drawn, draw_mishap(seed, task, (kind,)))
            changed = [
                i for i, thing in enumerate(scene.entities)
                if i >= len(drawn.entities) or thing != drawn.entities[i]
            ]
            assert len(changed) == 1
            assert (changed[0] == task.a) == (kind == 'flat')
            names = [thing.name for thing in scene.entities]
            assert len(set(names)) == len(names)
            arm.reset(scene)

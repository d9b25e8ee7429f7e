# SPDX-License-Identifier: Apache-2.0
from itertools import combinations
import math

import pytest
from sim.entity import BIN_WALL_M, Entity, HELD_OUT, STACKABLE_KINDS
from sim.errors import SceneError
from sim.scene import draw_scene

SCENES = [draw_scene((11, i), 'train', 'dataset') for i in range(150)]


def test_same_seed_same_scene():
    """A seed fixes a scene completely, and each number of the seed counts."""
    assert draw_scene((3, 4), 'train', 'dataset') == draw_scene((3, 4), 'train', 'dataset')
    assert draw_scene((3, 4)) != draw_scene((4, 3))


def test_names_are_unambiguous():
    """No scene shows two things of the same colour and kind."""
    for scene in SCENES:
        names = [e.name for e in scene.entities]
        assert len(names) == len(set(names))


def test_counts_of_things():
    """A scene has two to five objects and one to three bins."""
    for scene in SCENES:
        bins = sum(e.kind == 'bin' for e in scene.entities)
        assert 1 <= bins <= 3
        assert 2 <= len(scene.entities) - bins <= 5


def test_training_never_shows_held_out_pairs():
    """Held-out pairs appear in the test split only, and there often."""
    assert not any((e.colour, e.kind) in HELD_OUT for s in SCENES for e in s.entities)
    tests = [draw_scene((11, i), 'test') for i in range(40)]
    assert sum(any((e.colour, e.kind) in HELD_OUT for e in s.entities) for s in tests) > 10


def test_contained_things_rest_on_what_carries_them():
    """What is inside a bin lies on its floor, what is stacked stands on the lower object."""
    seen = set()
    for scene in SCENES:
        for e in scene.entities:
            if e.inside < 0:
                continue
            carrier = scene.entities[e.inside]
            seen.add(carrier.kind == 'bin')
            assert math.hypot(e.x - carrier.x, e.y - carrier.y) < 0.06
            low = e.z - (e.radius_m if e.roll else e.half_height_m)
            if carrier.kind == 'bin':
                assert low == pytest.approx(BIN_WALL_M)
            else:
                assert carrier.kind in STACKABLE_KINDS
                assert low == pytest.approx(2 * carrier.half_height_m)
    assert seen == {True, False}


def test_free_things_leave_room_for_the_gripper():
    """Two objects that stand on the table are far enough apart for a finger between them."""
    for seed in range(60):
        things = [e for e in draw_scene(seed).entities if e.kind != 'bin']
        for a, b in combinations(things, 2):
            assert math.hypot(a.x - b.x, a.y - b.y) > 0.08


def test_task_scenes_are_unfinished():
    """In a scene for a task nothing is inside, stacked, touching or held."""
    for seed in range(60):
        for e in draw_scene(seed).entities:
            assert (e.inside, e.touching, e.held) == (-1, -1, False)


def test_bad_values_are_named():
    """Unknown kinds, colours and splits are refused with the allowed ones."""
    with pytest.raises(SceneError, match='cube, ball, cylinder, bin'):
        Entity('cone', 'red', 0, 0, 0)
    with pytest.raises(SceneError, match='purple, orange$'):
        Entity('ball', 'white', 0, 0, 0)
    with pytest.raises(SceneError, match='train, test'):
        draw_scene(1, 'validation')

# SPDX-License-Identifier: Apache-2.0
"""Scenes for training come out alike under either renderer."""

import numpy as np
import pytest
from sim.dataset import generate, Painter
from sim.errors import SceneError

pytestmark = pytest.mark.slow


def test_the_same_seeds_give_the_same_scenes_in_other_pictures(gazebo, tmp_path):
    """Labels, sentences and moments are equal; pictures show the same, drawn otherwise."""
    for simulator in ('mujoco', 'gazebo'):
        assert generate(tmp_path / simulator, 2, 5, 'test', 1, 2, simulator) == 2
    ours, theirs = (np.load(tmp_path / name / 'shard_0000.npz') for name in ('gazebo', 'mujoco'))

    for name in set(theirs.files) - {'image'}:
        np.testing.assert_array_equal(ours[name], theirs[name])
    for ending in ('jsonl', 'agent.jsonl'):
        words = [(tmp_path / name / f'shard_0000.{ending}').read_text()
                 for name in ('gazebo', 'mujoco')]
        assert words[0] == words[1]
    apart = np.abs(ours['image'].astype(float) - theirs['image']).mean((1, 2, 3))
    assert (apart > 1).all() and (apart < 60).all(), apart


def test_pictures_of_two_renderers_do_not_mix(tmp_path):
    """A folder belongs to one of them."""
    generate(tmp_path, 1, 5, 'test', 1, 1)
    with pytest.raises(SceneError, match='another folder'):
        generate(tmp_path, 1, 5, 'test', 1, 1, 'gazebo')
    with pytest.raises(SceneError, match='bullet'):
        generate(tmp_path / 'other', 1, 5, 'test', 1, 1, 'bullet')


def test_a_held_thing_does_not_fall(gazebo):
    """In both pictures the thing in the gripper is where the label says, in its colour."""
    near = []
    for simulator in ('mujoco', 'gazebo'):
        painter = Painter(simulator)
        scene = painter.draw_visible(800_001, 3, 'test')
        held = [entity.held for entity in scene.entities].index(True)
        x, y = (painter.world.label_points()[held] * 128).astype(int)
        near.append(painter.photograph()[y - 2:y + 3, x - 2:x + 3].astype(float).mean((0, 1)))
        painter.close()

    assert np.linalg.norm(near[0] - near[1]) < 60, near

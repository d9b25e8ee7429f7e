# SPDX-License-Identifier: Apache-2.0
"""Scenes for training come out alike under either renderer."""

import numpy as np
import pytest
from sim.dataset import generate
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

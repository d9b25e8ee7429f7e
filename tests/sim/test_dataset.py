# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest
from sim.dataset import generate, MAX_ENTITIES, Painter, Settings, write_shard
from sim.entity import COLOURS, KINDS
from sim.errors import SceneError


@pytest.fixture(scope='module')
def shard(tmp_path_factory):
    folder = tmp_path_factory.mktemp('shards')
    assert generate(folder, 6, seed=5, split='test', workers=1, scenes_per_shard=3) == 6
    return folder


def test_arrays_have_the_promised_form(shard):
    """A shard has one row per scene with padded entities and points inside the picture."""
    data = np.load(shard / 'shard_0001.npz')
    assert data['image'].shape == (3, 128, 128, 3) and data['image'].dtype == np.uint8
    for name in ('kind', 'colour', 'inside', 'held'):
        assert data[name].shape == (3, MAX_ENTITIES) and data[name].dtype == np.int8
    assert data['point'].shape == (3, MAX_ENTITIES, 2) and data['point'].dtype == np.float32
    assert ((data['point'] >= 0) & (data['point'] <= 1)).all()
    assert data['yaw'].shape == (3, MAX_ENTITIES) and data['yaw'].dtype == np.float32
    assert np.ptp(data['yaw']) > 0


def test_instructions_name_the_entities_they_point_at(shard):
    """The indices of an instruction lead to entities of its colours and kinds."""
    data = np.load(shard / 'shard_0000.npz')
    lines = (shard / 'shard_0000.jsonl').read_text(encoding='utf-8').splitlines()
    for row, line in enumerate(map(json.loads, lines)):
        assert len(line) == 16
        for said in line:
            for part in 'ab':
                index = said[f'{part}_index']
                if index >= 0:
                    named = COLOURS[data['colour'][row, index]], KINDS[data['kind'][row, index]]
                    assert list(named) == said[part]


def test_an_interrupted_run_goes_on(shard):
    """Only missing shards are written again, and they come out the same."""
    path = shard / 'shard_0001.npz'
    before = np.load(path)['image']
    path.unlink()
    assert generate(shard, 6, seed=5, split='test', workers=1, scenes_per_shard=3) == 3
    assert (np.load(path)['image'] == before).all()


def test_settings_do_not_mix(shard):
    """A folder that holds another data set is refused with both settings."""
    with pytest.raises(SceneError, match='another folder'):
        generate(shard, 6, seed=6, split='test', workers=1, scenes_per_shard=3)
    with pytest.raises(SceneError, match='1 or more'):
        Settings(1, 'train', 0)


def test_shards_do_not_depend_on_each_other(shard, tmp_path):
    """A shard made alone equals the one made in a row."""
    settings = Settings(5, 'test', 6, 3)
    painter = Painter()
    assert write_shard((str(tmp_path), 1, 3, 6, settings), painter) == 3
    painter.close()
    alone = np.load(tmp_path / 'shard_0001.npz')
    assert (alone['kind'] == np.load(shard / 'shard_0001.npz')['kind']).all()

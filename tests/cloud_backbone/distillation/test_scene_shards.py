# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from cloud_backbone.distillation.scene_shards import read_split, ShardError
import pytest

from tests.cloud_backbone.distillation.drawn_scenes import write_split


def test_answers_follow_from_the_records(tmp_path: Path) -> None:
    """A refusal names the missing thing; every other answer has the points of its things."""
    write_split(tmp_path, 'train', 4, seed=1)
    scenes = read_split(tmp_path, 'train')
    assert len(scenes) == 4 and len(scenes.instructions) == 24
    for item in scenes.instructions:
        if item.draft.outcome == 'refused':
            assert str(item.draft.a) == 'black ball' and item.draft.a_point is None
        else:
            wanted = scenes.point[item.scene, item.a_index].tolist()
            assert item.draft.a_point == pytest.approx(wanted)


def test_limit_counts_scenes(tmp_path: Path) -> None:
    """A limit keeps the first scenes and only their instructions."""
    write_split(tmp_path, 'train', 4, seed=1)
    scenes = read_split(tmp_path, 'train', limit=2)
    assert len(scenes) == 2 and {item.scene for item in scenes.instructions} == {0, 1}


def test_missing_data_is_named(tmp_path: Path) -> None:
    """A split without shards is refused with its path."""
    with pytest.raises(ShardError, match='val'):
        read_split(tmp_path, 'val')


def test_files_that_disagree_are_refused(tmp_path: Path) -> None:
    """A shard whose two files have different lengths is refused."""
    write_split(tmp_path, 'train', 4, seed=1)
    lines = tmp_path / 'train' / 'shard_0000.jsonl'
    lines.write_text(''.join(lines.read_text().splitlines(keepends=True)[:3]))
    with pytest.raises(ShardError, match='4 scenes.*3 lines'):
        read_split(tmp_path, 'train')

# SPDX-License-Identifier: Apache-2.0
"""Scene shards with flat drawings instead of rendered scenes: made in a second, same format."""

import json
from pathlib import Path
from typing import Any

from cloud_backbone.model.configuration import BIN, COLOURS, KINDS
import cv2
import numpy as np
from numpy.random import Generator

RGB = {
    'red': (200, 30, 30),
    'green': (30, 160, 40),
    'blue': (30, 60, 210),
    'yellow': (220, 200, 30),
    'purple': (140, 30, 170),
    'orange': (230, 120, 20),
    'white': (235, 235, 235),
    'black': (20, 20, 20),
}
SIDE = 128
ENTITIES = 8


def write_split(directory: Path, split: str, scenes: int, seed: int) -> None:
    """Write one shard of a split; half of the instructions of `test` have unseen wordings."""
    rng = np.random.default_rng(seed)
    drawn = [_scene(rng) for _ in range(scenes)]
    names = ('image', 'kind', 'colour', 'point', 'inside', 'held')
    folder = directory / split
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {name: np.stack([scene[name] for scene in drawn]) for name in names}
    np.savez(folder / 'shard_0000.npz', **arrays)
    lines = [json.dumps(_records(rng, scene, split == 'test')) for scene in drawn]
    (folder / 'shard_0000.jsonl').write_text('\n'.join(lines) + '\n', encoding='utf-8')
    lines = [json.dumps(_moments(scene)) for scene in drawn]
    (folder / 'shard_0000.agent.jsonl').write_text('\n'.join(lines) + '\n', encoding='utf-8')


def _scene(rng: Generator) -> dict[str, Any]:
    image = np.full((SIDE, SIDE, 3), 120, dtype=np.uint8)
    kind = np.full(ENTITIES, -1, dtype=np.int8)
    colour, inside = kind.copy(), kind.copy()
    point = np.zeros((ENTITIES, 2), dtype=np.float32)
    spots = rng.permutation(9)[:4]
    for index, spot in enumerate(spots):
        kind[index] = BIN if index == 0 else rng.integers(0, 3)
        colour[index] = rng.integers(0, 6)
        point[index] = (spot % 3 * 0.3 + 0.2, spot // 3 * 0.3 + 0.2) + rng.uniform(-0.05, 0.05, 2)
        x, y = (point[index] * SIDE).astype(int)
        size = 12 if index == 0 else 5
        cv2.rectangle(
            image, (x - size, y - size), (x + size, y + size), RGB[COLOURS[colour[index]]], -1
        )
    held = np.zeros(ENTITIES, dtype=np.int8)
    return {
        'image': image, 'kind': kind, 'colour': colour, 'point': point, 'inside': inside,
        'held': held,
    }  # fmt: skip


def _records(rng: Generator, scene: dict[str, Any], unseen: bool) -> list[dict[str, Any]]:
    bin_name = [COLOURS[scene['colour'][0]], 'bin']
    records = []
    for number in range(6):
        index = int(rng.integers(1, 4))
        a = [COLOURS[scene['colour'][index]], KINDS[scene['kind'][index]]]
        task = ('put', 'pick', 'push')[number % 3]
        gone = number == 5
        record = {
            'instruction': f'{task} the {a[0]} {a[1]}' + ('' if task == 'pick' else ' to the bin'),
            'task': task,
            'outcome': 'refused' if gone else 'done' if number == 3 else 'steps',
            'a': ['black', 'ball'] if gone else a,
            'b': None if task == 'pick' else bin_name,
            'a_index': -1 if gone else index,
            'b_index': -1 if task == 'pick' else 0,
            'template': 1000 if unseen and number < 3 else number,
        }
        records.append(record)
    return records


def _moments(scene: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a grasp after a miss, a call that a lesson makes slow, a look and a lesson."""
    a = [COLOURS[scene['colour'][1]], KINDS[scene['kind'][1]]]
    place = [COLOURS[scene['colour'][0]], 'bin']
    put = {
        'text': f'put the {a[0]} {a[1]} into the bin', 'task': 'put', 'a': a, 'b': place,
        'a_index': 1, 'b_index': 0, 'template': 1, 'lessons': [], 'is_over': False,
        'hand': False, 'holding': False, 'tool': 'grasp', 'manner': '',
        'history': [[['grasp', a, ''], 'missed']],
    }
    gone = {'a': ['black', 'ball'], 'b': None, 'a_index': -1, 'b_index': -1, 'history': []}
    return [
        put,
        {**put, 'lessons': [['slips', a]], 'manner': 'slowly'},
        {**put, **gone, 'tool': 'look'},
        {**put, 'is_over': True, 'tool': 'lesson', 'manner': 'low'},
    ]

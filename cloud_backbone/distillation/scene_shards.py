# SPDX-License-Identifier: Apache-2.0
"""Reads scene shards: images, what is in them, and instructions about them.

A shard is `shard_XXXX.npz` with `shard_XXXX.jsonl` beside it; the file format is all that is
shared with the simulator. Knows no tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
import json
from pathlib import Path
from typing import Any

from cloud_backbone.plan_grammar import OUTCOMES, PlanDraft, TASKS
from cloud_backbone.plan_vocabulary import Thing
import numpy as np
from numpy.typing import NDArray
import torch
from torch import Tensor

UNSEEN_WORDING = 1000  # template numbers from here on are kept out of training
HELD_OUT = frozenset(
    {Thing('green', 'ball'), Thing('purple', 'cube'), Thing('yellow', 'cylinder')}
)


class ShardError(ValueError):
    """A shard is missing or its two files do not agree."""


@dataclass(frozen=True)
class Instruction:
    """One sentence about one scene and the right answer to it.

    a_index and b_index point into the scene's entities; -1 means absent or not named.
    """

    scene: int
    text: str
    draft: PlanDraft
    a_index: int
    b_index: int
    template: int
    task: str

    @property
    def unseen_wording(self) -> bool:
        """Whether its template is kept out of training."""
        return self.template >= UNSEEN_WORDING

    @property
    def unseen_pair(self) -> bool:
        """Whether it names a thing whose colour and kind never occur together in training."""
        return bool(HELD_OUT & {self.draft.a, self.draft.b})


@dataclass(frozen=True)
class Scenes:
    """Scenes of a split, and all instructions about them.

    image: (scenes, side, side, 3), uint8. kind, colour, inside, held: (scenes, entities), -1 for
    none. point: (scenes, entities, 2), 0 to 1 from the top left.
    """

    image: Tensor
    kind: Tensor
    colour: Tensor
    point: Tensor
    inside: Tensor
    held: Tensor
    instructions: tuple[Instruction, ...]

    def __len__(self) -> int:
        """Return the number of scenes."""
        return len(self.image)


def read_split(data_dir: Path, split: str, limit: int | None = None) -> Scenes:
    """Read the shards of one split, those in folders of it too, at most `limit` scenes.

    Raises:
        ShardError: there is no shard, or a shard's files do not agree.
    """
    paths = sorted((data_dir / split).rglob('shard_*.npz'))
    paths = [path for path in paths if path.with_suffix('.jsonl').is_file()]
    if not paths:
        raise ShardError(f'{data_dir / split} holds no shard_*.npz with its .jsonl')
    arrays: list[dict[str, NDArray[Any]]] = []
    lines: list[str] = []
    for path in paths:
        with np.load(path) as shard:
            arrays.append({name: shard[name] for name in shard.files})
        lines += _lines_of(path, len(arrays[-1]['image']))
        if limit is not None and len(lines) >= limit:
            break
    joined = {name: np.concatenate([part[name] for part in arrays])[:limit] for name in arrays[0]}
    return _scenes(joined, lines[:limit])


def _lines_of(path: Path, scenes: int) -> list[str]:
    lines = path.with_suffix('.jsonl').read_text(encoding='utf-8').splitlines()
    if len(lines) != scenes:
        raise ShardError(f'{path} holds {scenes} scenes, but its .jsonl {len(lines)} lines')
    return lines


def _scenes(arrays: dict[str, NDArray[Any]], lines: list[str]) -> Scenes:
    points = arrays['point'].astype(np.float32)
    instructions = tuple(
        _instruction(scene, entry, points[scene])
        for scene, line in enumerate(lines)
        for entry in json.loads(line)
    )
    labels = {
        name: torch.from_numpy(arrays[name].astype(np.int64))
        for name in ('kind', 'colour', 'inside', 'held')
    }
    image, point = torch.from_numpy(arrays['image']), torch.from_numpy(points)
    return Scenes(image, point=point, instructions=instructions, **labels)


def _instruction(scene: int, entry: dict[str, Any], points: NDArray[np.float32]) -> Instruction:
    """Turn one record into an instruction with the answer that it deserves."""
    if entry['outcome'] not in OUTCOMES or entry['task'] not in TASKS:
        raise ShardError(
            f'record {entry} has outcome {entry["outcome"]!r} and task {entry["task"]!r}; allowed '
            f'are {", ".join(OUTCOMES)} and {", ".join(TASKS)}'
        )
    a, b = Thing(*entry['a']), Thing(*entry['b']) if entry['b'] else None
    draft = _draft(entry, a, b, points)
    return Instruction(
        scene=scene,
        text=entry['instruction'],
        draft=draft,
        a_index=int(entry['a_index']),
        b_index=int(entry['b_index']),
        template=int(entry['template']),
        task=entry['task'],
    )


def _draft(
    entry: dict[str, Any], a: Thing, b: Thing | None, points: NDArray[np.float32]
) -> PlanDraft:
    if entry['outcome'] == 'refused':
        return PlanDraft('refused', a if entry['a_index'] < 0 or b is None else b)
    at = [(float(x), float(y)) for x, y in points]
    return PlanDraft(
        outcome=entry['outcome'],
        a=a,
        b=b,
        a_point=at[entry['a_index']],
        b_point=at[entry['b_index']] if b else None,
        task=entry['task'] if entry['outcome'] == 'steps' else None,
    )

# SPDX-License-Identifier: Apache-2.0
"""Reads scene shards for the onboard planner: pictures, what is in them, sentences about them.

A shard is ``shard_XXXX.npz`` with ``shard_XXXX.jsonl`` beside it; the file format is all that is
shared with the simulator. Knows no network and no robot.
"""

from __future__ import annotations

from dataclasses import dataclass
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.errors import ConfigError

Name = tuple[str, str]
ARRAYS = ('image', 'kind', 'colour', 'inside', 'held', 'point', 'yaw')
UNSEEN_WORDING = 1000
"""Template numbers from here on are kept out of training."""


class ShardError(ConfigError):
    """A shard is missing, lacks an array, or its two files do not agree."""


@dataclass(frozen=True)
class Sentence:
    """One sentence and its meaning; names are (colour, kind), indices point into the scene.

    ``outcome`` is 'steps', 'done' or 'refused'; an index is -1 for a thing that is absent or not
    named.
    """

    scene: int
    text: str
    task: str
    outcome: str
    a: Name
    b: Name | None
    a_index: int
    b_index: int
    template: int

    @property
    def has_unseen_wording(self) -> bool:
        """True if its template is kept out of training."""
        return self.template >= UNSEEN_WORDING


@dataclass(frozen=True)
class Pictures:
    """Scenes of one split.

    ``image`` (scenes, side, side, 3) uint8 RGB; ``kind``, ``colour``, ``inside``, ``held``
    (scenes, entities), -1 for none; ``point`` (scenes, entities, 2), 0 to 1 from the top left;
    ``yaw`` (scenes, entities) in the base frame [rad].
    """

    image: NDArray[np.uint8]
    kind: NDArray[np.int64]
    colour: NDArray[np.int64]
    inside: NDArray[np.int64]
    held: NDArray[np.int64]
    point: NDArray[np.float32]
    yaw: NDArray[np.float32]
    sentences: tuple[Sentence, ...]

    def __len__(self) -> int:
        """Return the number of scenes."""
        return len(self.image)


def read_pictures(folder: Path, limit: int | None = None) -> Pictures:
    """Read the shards of one split, at most ``limit`` scenes.

    Raises:
        ShardError: there is no shard, or a shard's files do not agree.
    """
    paths = [p for p in sorted(folder.glob('shard_*.npz')) if p.with_suffix('.jsonl').is_file()]
    if not paths:
        raise ShardError(f'{folder} holds no shard_*.npz with its .jsonl; sim.dataset writes them')
    parts: list[dict[str, NDArray[Any]]] = []
    lines: list[str] = []
    for path in paths:
        parts.append(_arrays(path))
        lines += path.with_suffix('.jsonl').read_text(encoding='utf-8').splitlines()
        if len(lines) != sum(len(part['image']) for part in parts):
            raise ShardError(f'{path} and its .jsonl differ in their number of scenes')
        if limit is not None and len(lines) >= limit:
            break
    joined: dict[str, Any] = {
        name: np.concatenate([part[name] for part in parts])[:limit] for name in ARRAYS
    }
    for name in ('kind', 'colour', 'inside', 'held'):
        joined[name] = joined[name].astype(np.int64)
    return Pictures(**joined, sentences=_sentences(lines[:limit]))


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    with np.load(path) as shard:
        missing = [name for name in ARRAYS if name not in shard.files]
        if missing:
            raise ShardError(
                f'{path} lacks {", ".join(missing)}; it must have {", ".join(ARRAYS)}: '
                f'draw the scenes anew with sim.dataset')
        return {name: shard[name] for name in ARRAYS}


def _sentences(lines: list[str]) -> tuple[Sentence, ...]:
    return tuple(
        Sentence(
            scene, entry['instruction'], entry['task'], entry['outcome'], tuple(entry['a']),
            tuple(entry['b']) if entry['b'] else None, int(entry['a_index']),
            int(entry['b_index']), int(entry['template']),
        )
        for scene, line in enumerate(lines) for entry in json.loads(line)
    )

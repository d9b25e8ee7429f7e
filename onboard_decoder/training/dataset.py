# SPDX-License-Identifier: Apache-2.0
"""Demonstrations from npz shards, as tensors in memory, drawn in a seeded order.

The file format is the interface: this package never imports what wrote them. Knows no network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from onboard_decoder.errors import ConfigError
import torch
from torch import Tensor

GIVEN = ('skill', 'target', 'gripper', 'speed', 'joints', 'velocities', 'accelerations', 'delay',
         'latent')
LABELS = ('chunk', 'remaining', 'goal')

Batch = Mapping[str, Tensor]


class DemonstrationsError(ConfigError):
    """A folder holds no usable demonstrations."""

    def __init__(self, folder: Path, problem: str) -> None:
        super().__init__(
            f'demonstrations in {folder}: {problem}; shard_XXXX.npz files with the arrays '
            f'{", ".join(GIVEN + LABELS)} are needed')


def load_demonstrations(folder: Path) -> dict[str, Tensor]:
    """Read all shards of a folder; each array is (samples, ...).

    Raises:
        DemonstrationsError: no shard, an array is missing, or a value is not finite.
    """
    paths = sorted(folder.glob('shard_*.npz'))
    if not paths:
        raise DemonstrationsError(folder, 'there is no shard')
    parts: dict[str, list[Tensor]] = {name: [] for name in GIVEN + LABELS}
    for path in paths:
        with np.load(path, allow_pickle=False) as shard:
            for name, part in parts.items():
                if name not in shard:
                    raise DemonstrationsError(folder, f'{path.name} has no {name}')
                array = shard[name]
                if not np.isfinite(array).all():
                    raise DemonstrationsError(folder, f'{name} of {path.name} is not finite')
                part.append(torch.from_numpy(array))
    return {name: torch.cat(part) for name, part in parts.items()}


def draw_batches(data: Batch, batch: int, seed: int, first: int, last: int) -> Iterator[Batch]:
    """Yield batches number first to last - 1 of an endless, seeded, shuffled run over the data.

    Starting later gives the same batches as having started at zero: a run can be resumed.
    """
    count = len(data['skill'])
    per_epoch = max(count // batch, 1)
    epoch = -1
    order = torch.arange(count)
    for step in range(first, last):
        if step // per_epoch != epoch:
            epoch = step // per_epoch
            generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
            order = torch.randperm(count, generator=generator)
        start = (step % per_epoch) * batch
        rows = order[start:start + batch]
        yield {name: value[rows] for name, value in data.items()}

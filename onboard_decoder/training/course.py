# SPDX-License-Identifier: Apache-2.0
"""How a network learns step by step, and what an interrupted run leaves for the next one.

Knows no network and no data.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
import math
from pathlib import Path
from typing import Any

import torch
from torch import nn, Tensor

SAVE_EVERY = 200
"""Steps from one checkpoint to the next."""


@dataclass(frozen=True)
class TrainSettings:
    """How to train.

    Attributes:
        seed: of the weights, the order of the data and every draw.
        steps: batches to learn from.
        batch: samples of a batch.
        rate: highest learning rate; it warms up, then falls along a cosine.
        decay: weight decay.
        warm_steps: how long it warms up.
    """

    seed: int = 0
    steps: int = 6000
    batch: int = 512
    rate: float = 1.5e-3
    decay: float = 0.01
    warm_steps: int = 200

    def rate_at(self, step: int) -> float:
        """Learning rate of a step."""
        warm = min(1.0, (step + 1) / self.warm_steps)
        return self.rate * warm * (0.5 + 0.5 * math.cos(math.pi * step / self.steps)) + 1e-6


def descend(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor, rate: float) -> None:
    """Take one step down a loss, of a bounded length."""
    for group in optimizer.param_groups:
        group['lr'] = rate
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def save(path: Path, settings: TrainSettings, model: nn.Module, optimizer: torch.optim.Optimizer,
         step: int, spent_s: float) -> None:
    """Write a checkpoint: the next step and the seconds taken so far; whole or not at all."""
    state: dict[str, Any] = {
        'settings': asdict(settings), 'step': step, 'spent_s': spent_s,
        'model': model.state_dict(), 'optimizer': optimizer.state_dict(),
    }
    part = path.with_suffix('.part')
    torch.save(state, part)
    part.replace(path)


def resume(path: Path, settings: TrainSettings, model: nn.Module,
           optimizer: torch.optim.Optimizer) -> tuple[int, float]:
    """Load what an interrupted run of the same settings left; return its next step and seconds."""
    if not path.exists():
        return 0, 0.0
    state = torch.load(path, weights_only=True)
    if state['settings'] != asdict(settings):
        return 0, 0.0
    model.load_state_dict(state['model'])
    optimizer.load_state_dict(state['optimizer'])
    return int(state['step']), float(state['spent_s'])

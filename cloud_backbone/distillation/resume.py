# SPDX-License-Identifier: Apache-2.0
"""Keeps a training that was interrupted: weights, optimizer, random state, step.

Written beside the stage's other files and removed when the stage is finished.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Generator, nn
from torch.optim import Optimizer

FILE = 'resume.pt'


class Resume:
    """The stored state of one training; without a directory nothing is stored."""

    def __init__(self, directory: Path | None, every: int = 200) -> None:
        self._path = None if directory is None else directory / FILE
        self._every = every

    def load(self, model: nn.Module, optimizer: Optimizer, generator: Generator) -> int:
        """Restore a stored state, if there is one; return the step to go on with."""
        if self._path is None or not self._path.is_file():
            return 0
        stored = torch.load(self._path, weights_only=True)
        model.load_state_dict(stored['model'])
        optimizer.load_state_dict(stored['optimizer'])
        generator.set_state(stored['generator'])
        return int(stored['step'])

    def save(
        self, step: int, model: nn.Module, optimizer: Optimizer, generator: Generator
    ) -> None:
        """Store the state after `step` steps, now and then."""
        if self._path is None or step % self._every:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            'model': model.state_dict(),
            'optimizer': optimizer.state_dict(),
            'generator': generator.get_state(),
            'step': step,
        }
        partial = self._path.with_suffix('.part')
        torch.save(state, partial)
        partial.replace(self._path)

    def clear(self) -> None:
        """Forget the stored state: the stage is finished."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)

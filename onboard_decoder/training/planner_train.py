# SPDX-License-Identifier: Apache-2.0
"""Trains the onboard planner's eyes and ears; seeded, one thread, resumable.

Knows batches and losses; the files that come out are made by ``planner_export``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
import math
from pathlib import Path
import time
from typing import Any

import numpy as np
from onboard_decoder.training.planner_data import Pictures
from onboard_decoder.training.planner_ears import Ears
from onboard_decoder.training.planner_eyes import Eyes
from onboard_decoder.training.planner_losses import ears_loss, eyes_loss
from onboard_decoder.training.planner_pictures import draw_pictures
from onboard_decoder.training.planner_sentences import SentenceSource
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
import torch
from torch import Generator, nn, Tensor

_SAVE_EVERY = 200


@dataclass(frozen=True)
class Course:
    """How to train one part.

    Attributes:
        seed: of the weights and of every draw.
        steps: batches to learn from.
        batch: samples of a batch.
        rate: highest learning rate; it warms up, then falls along a cosine.
        decay: weight decay.
    """

    seed: int = 0
    steps: int = 3000
    batch: int = 32
    rate: float = 1.5e-3
    decay: float = 0.02

    def rate_at(self, step: int) -> float:
        """Learning rate of a step."""
        warm = min(1.0, (step + 1) / 100)
        return self.rate * warm * (0.5 + 0.5 * math.cos(math.pi * step / self.steps)) + 1e-6


def train_eyes(out: Path, pictures: Pictures, course: Course) -> tuple[Eyes, float]:
    """Train eyes, or go on where an interrupted run stopped; return them and the CPU time [s]."""
    torch.manual_seed(course.seed)
    eyes = Eyes()

    def loss(generator: Generator) -> Tensor:
        batch = draw_pictures(pictures, course.batch, generator)
        with torch.autocast('cpu', torch.bfloat16):
            cells = eyes(batch.pixels)
        return eyes_loss(type(cells)(*(part.float() for part in cells)), batch)

    return eyes, learn(out / 'eyes.checkpoint.pt', eyes, loss, course, 'eyes')


def train_ears(
    out: Path, source: SentenceSource, words: int, course: Course
) -> tuple[Ears, float]:
    """Train ears for that many words, like ``train_eyes``."""
    torch.manual_seed(course.seed)
    ears = Ears(words + 1)

    def loss(generator: Generator) -> Tensor:
        seed = int(torch.randint(2**31, (1,), generator=generator))
        batch = source.draw(course.batch, np.random.default_rng(seed))
        return ears_loss(ears(batch.words), batch)

    return ears, learn(out / 'ears.checkpoint.pt', ears, loss, course, 'ears')


def learn(path: Path, model: nn.Module, loss_of: Callable[[Generator], Tensor],
          course: Course, name: str) -> float:
    """Take the steps of a course; return the CPU time [s].

    Args:
        path: of the checkpoint.
        model: learns, and is in evaluation mode afterwards.
        loss_of: draws a batch from a generator and returns its loss.
        course: how.
        name: for the progress line.
    """
    torch.set_num_threads(1)
    path.parent.mkdir(parents=True, exist_ok=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=course.rate, weight_decay=course.decay)
    first, spent_s = _resume(path, course, model, optimizer)
    started_s, trail = time.process_time() - spent_s, 0.0
    model.train()
    with Progress(TextColumn(name), BarColumn(), TextColumn('{task.fields[loss]}'),
                  TimeRemainingColumn()) as progress:
        bar = progress.add_task('', total=course.steps, completed=first, loss='')
        for step in range(first, course.steps):
            loss = loss_of(Generator().manual_seed(course.seed * 7_919 + step))
            for group in optimizer.param_groups:
                group['lr'] = course.rate_at(step)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            now = float(loss.detach())
            trail = now if step == first else 0.98 * trail + 0.02 * now
            progress.update(bar, advance=1, loss=f'{trail:.3f}')
            if (step + 1) % _SAVE_EVERY == 0 or step + 1 == course.steps:
                _save(path, course, model, optimizer, step + 1, time.process_time() - started_s)
    model.eval()
    return time.process_time() - started_s


def _save(path: Path, course: Course, model: nn.Module, optimizer: torch.optim.Optimizer,
          step: int, spent_s: float) -> None:
    state: dict[str, Any] = {
        'course': asdict(course), 'step': step, 'spent_s': spent_s,
        'model': model.state_dict(), 'optimizer': optimizer.state_dict(),
    }
    part = path.with_suffix('.part')
    torch.save(state, part)
    part.replace(path)


def _resume(path: Path, course: Course, model: nn.Module,
            optimizer: torch.optim.Optimizer) -> tuple[int, float]:
    """Load what an interrupted run left; return its next step and the seconds it took."""
    if not path.exists():
        return 0, 0.0
    state = torch.load(path, weights_only=True)
    if state['course'] != asdict(course):
        return 0, 0.0
    model.load_state_dict(state['model'])
    optimizer.load_state_dict(state['optimizer'])
    return int(state['step']), float(state['spent_s'])

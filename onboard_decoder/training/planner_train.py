# SPDX-License-Identifier: Apache-2.0
"""Trains the onboard planner's eyes and ears; seeded, one thread, resumable.

Knows batches and losses; the files that come out are made by ``planner_export``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
import time

import numpy as np
from onboard_decoder.training import course
from onboard_decoder.training.course import TrainSettings
from onboard_decoder.training.planner_data import Pictures
from onboard_decoder.training.planner_ears import Ears
from onboard_decoder.training.planner_eyes import Eyes
from onboard_decoder.training.planner_losses import ears_loss, eyes_loss
from onboard_decoder.training.planner_pictures import draw_pictures
from onboard_decoder.training.planner_sentences import SentenceSource
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
import torch
from torch import Generator, nn, Tensor


def train_eyes(out: Path, pictures: Pictures, settings: TrainSettings) -> tuple[Eyes, float]:
    """Train eyes, or go on where an interrupted run stopped; return them and the CPU time [s]."""
    torch.manual_seed(settings.seed)
    eyes = Eyes()

    def loss(generator: Generator) -> Tensor:
        batch = draw_pictures(pictures, settings.batch, generator)
        with torch.autocast('cpu', torch.bfloat16):
            cells = eyes(batch.pixels)
        return eyes_loss(type(cells)(*(part.float() for part in cells)), batch)

    return eyes, learn(out / 'eyes.checkpoint.pt', eyes, loss, settings, 'eyes')


def train_ears(
    out: Path, source: SentenceSource, words: int, settings: TrainSettings
) -> tuple[Ears, float]:
    """Train ears for that many words, like ``train_eyes``."""
    torch.manual_seed(settings.seed)
    ears = Ears(words + 1)

    def loss(generator: Generator) -> Tensor:
        seed = int(torch.randint(2**31, (1,), generator=generator))
        batch = source.draw(settings.batch, np.random.default_rng(seed))
        return ears_loss(ears(batch.words), batch)

    return ears, learn(out / 'ears.checkpoint.pt', ears, loss, settings, 'ears')


def learn(path: Path, model: nn.Module, loss_of: Callable[[Generator], Tensor],
          settings: TrainSettings, name: str) -> float:
    """Take all steps; return the CPU time [s].

    Args:
        path: of the checkpoint.
        model: learns, and is in evaluation mode afterwards.
        loss_of: draws a batch from a generator and returns its loss.
        settings: how.
        name: for the progress line.
    """
    torch.set_num_threads(1)
    path.parent.mkdir(parents=True, exist_ok=True)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.rate, weight_decay=settings.decay)
    first, spent_s = course.resume(path, settings, model, optimizer)
    started_s, trail = time.process_time() - spent_s, 0.0
    model.train()
    with Progress(TextColumn(name), BarColumn(), TextColumn('{task.fields[loss]}'),
                  TimeRemainingColumn()) as progress:
        bar = progress.add_task('', total=settings.steps, completed=first, loss='')
        for step in range(first, settings.steps):
            loss = loss_of(Generator().manual_seed(settings.seed * 7_919 + step))
            course.descend(model, optimizer, loss, settings.rate_at(step))
            now = float(loss.detach())
            trail = now if step == first else 0.98 * trail + 0.02 * now
            progress.update(bar, advance=1, loss=f'{trail:.3f}')
            if (step + 1) % course.SAVE_EVERY == 0 or step + 1 == settings.steps:
                course.save(path, settings, model, optimizer, step + 1,
                            time.process_time() - started_s)
    model.eval()
    return time.process_time() - started_s

# SPDX-License-Identifier: Apache-2.0
"""Trains the decoder on demonstrations; seeded, one thread, resumable.

Writes `checkpoint.pt` now and then, and `decoder.pt` and `training.json` at the end. Knows no
robot but the manifest it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
import json
from pathlib import Path
import time

from onboard_decoder.decoder_file import INPUTS
from onboard_decoder.manifest import Manifest
from onboard_decoder.training import course
from onboard_decoder.training.course import TrainSettings
from onboard_decoder.training.dataset import Batch, draw_batches, load_demonstrations
from onboard_decoder.training.decoder_model import DecoderConfig, DecoderModel
from onboard_decoder.training.drafts import with_drafts, with_latents
from onboard_decoder.training.earlier import begin_with
from onboard_decoder.training.losses import losses_of
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
import torch


def train(out: Path, demonstrations: Path, manifest: Manifest, settings: TrainSettings,
          config: DecoderConfig | None = None, earlier: Path | None = None) -> DecoderModel:
    """Train a decoder, or go on where an interrupted run of the same settings stopped.

    A new run begins with the weights of an ``earlier`` decoder file, if one is given.
    """
    torch.set_num_threads(1)
    torch.manual_seed(settings.seed)
    out.mkdir(parents=True, exist_ok=True)
    model = DecoderModel(manifest, config or DecoderConfig())
    if earlier is not None:
        begin_with(model, earlier)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.rate, weight_decay=settings.decay, betas=(0.9, 0.98))
    first, spent_s = course.resume(out / 'checkpoint.pt', settings, model, optimizer)
    data = load_demonstrations(demonstrations)
    started = time.process_time() - spent_s
    trail: dict[str, float] = {}
    with Progress(TextColumn('decoder'), BarColumn(), TextColumn('{task.fields[loss]}'),
                  TimeRemainingColumn()) as progress:
        bar = progress.add_task('', total=settings.steps, completed=first, loss='')
        batches = draw_batches(data, settings.batch, settings.seed, first, settings.steps)
        for step, batch in enumerate(batches, start=first):
            now = _learn(model, optimizer, batch, settings, step)
            trail = {k: 0.98 * trail.get(k, v) + 0.02 * v for k, v in now.items()}
            progress.update(bar, advance=1, loss=_line(trail))
            if (step + 1) % course.SAVE_EVERY == 0:
                course.save(out / 'checkpoint.pt', settings, model, optimizer, step + 1,
                            time.process_time() - started)
    record = {**asdict(settings), 'samples': len(data['skill']),
              'cpu_s': round(time.process_time() - started, 1), 'losses': trail}
    (out / 'training.json').write_text(json.dumps(record, indent=1), encoding='utf-8')
    torch.save(model.state_dict(), out / 'decoder.pt')
    return model.eval()


def _learn(model: DecoderModel, optimizer: torch.optim.Optimizer, batch: Batch,
           settings: TrainSettings, step: int) -> dict[str, float]:
    """Take one step; return the parts of the loss."""
    generator = torch.Generator().manual_seed(settings.seed * 7_919 + step)
    batch = with_latents(batch, generator)
    batch = with_drafts(batch, model.spread, model.top_bend, generator)
    prediction = model.predict(**{name: batch[name] for name in INPUTS})
    losses = losses_of(prediction, batch, model.top_bend)
    course.descend(model, optimizer, losses.total(), settings.rate_at(step))
    return {name: float(value.detach()) for name, value in vars(losses).items()}


def _line(losses: Mapping[str, float]) -> str:
    return ' '.join(f'{name} {value:.3f}' for name, value in losses.items())

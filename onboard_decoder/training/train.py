# SPDX-License-Identifier: Apache-2.0
"""Trains the decoder on demonstrations; seeded, one thread, resumable.

Writes `checkpoint.pt` now and then, and `decoder.pt` and `training.json` at the end. Knows no
robot but the manifest it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
import json
import math
from pathlib import Path
import time
from typing import Any

from onboard_decoder.manifest import Manifest
from onboard_decoder.training.dataset import Batch, draw_batches, load_demonstrations
from onboard_decoder.training.decoder_model import DecoderConfig, DecoderModel, INPUTS
from onboard_decoder.training.drafts import with_drafts, with_latents
from onboard_decoder.training.earlier import begin_with
from onboard_decoder.training.losses import losses_of
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
import torch

_SAVE_EVERY = 200


@dataclass(frozen=True)
class TrainSettings:
    """How to train.

    Attributes:
        seed: of the weights, the order of the data and the noise.
        steps: batches to learn from.
        batch: samples of a batch.
        rate: highest learning rate; it warms up, then falls along a cosine.
        decay: weight decay.
    """

    seed: int = 0
    steps: int = 6000
    batch: int = 512
    rate: float = 1.5e-3
    decay: float = 0.01

    def rate_at(self, step: int) -> float:
        """Learning rate of a step."""
        warm = min(1.0, (step + 1) / 200)
        return self.rate * warm * (0.5 + 0.5 * math.cos(math.pi * step / self.steps)) + 1e-6


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
    first, spent_s = _resume(out / 'checkpoint.pt', settings, model, optimizer)
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
            if (step + 1) % _SAVE_EVERY == 0:
                _save(out / 'checkpoint.pt', settings, model, optimizer, step + 1,
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
    for group in optimizer.param_groups:
        group['lr'] = settings.rate_at(step)
    prediction = model.predict(**{name: batch[name] for name in INPUTS})
    losses = losses_of(prediction, batch, model.top_bend)
    optimizer.zero_grad()
    losses.total().backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return {name: float(value.detach()) for name, value in vars(losses).items()}


def _line(losses: Mapping[str, float]) -> str:
    return ' '.join(f'{name} {value:.3f}' for name, value in losses.items())


def _save(path: Path, settings: TrainSettings, model: DecoderModel,
          optimizer: torch.optim.Optimizer, step: int, spent_s: float) -> None:
    state: dict[str, Any] = {
        'settings': asdict(settings), 'step': step, 'spent_s': spent_s,
        'model': model.state_dict(), 'optimizer': optimizer.state_dict(),
    }
    part = path.with_suffix('.part')
    torch.save(state, part)
    part.replace(path)


def _resume(path: Path, settings: TrainSettings, model: DecoderModel,
            optimizer: torch.optim.Optimizer) -> tuple[int, float]:
    """Load what an interrupted run left; return its next step and the seconds it took."""
    if not path.exists():
        return 0, 0.0
    state = torch.load(path, weights_only=True)
    if state['settings'] != asdict(settings):
        return 0, 0.0
    model.load_state_dict(state['model'])
    optimizer.load_state_dict(state['optimizer'])
    return int(state['step']), float(state['spent_s'])

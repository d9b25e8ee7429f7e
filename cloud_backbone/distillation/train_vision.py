# SPDX-License-Identifier: Apache-2.0
"""Teaches the eyes: vision encoder and dense head learn what is where, before any words.

The result goes into teacher and student alike. Knows scenes, not instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cloud_backbone.distillation.augment import disturb_light, shift, to_pixels, turn_hues
from cloud_backbone.distillation.dense_loss import dense_loss, Labels, score_sight, Sight
from cloud_backbone.distillation.profile import Profile
from cloud_backbone.distillation.resume import Resume
from cloud_backbone.distillation.scene_shards import Scenes
from cloud_backbone.distillation.schedule import rate_factor, set_rate
from cloud_backbone.model.configuration import TendonVisionConfig
from cloud_backbone.model.dense_head import Cells, DenseHead
from cloud_backbone.model.vision_encoder import VisionEncoder
import torch
from torch import nn, Tensor

Report = Callable[[int, dict[str, float]], None]
RISE = 100
TURNED_SHARE = 0.5


class Eyes(nn.Module):
    """Vision encoder with its dense head."""

    def __init__(self, config: TendonVisionConfig) -> None:
        super().__init__()
        self.encoder = VisionEncoder(config)
        self.head = DenseHead(self.encoder.fine_width)

    def forward(self, pixels: Tensor) -> Cells:
        """Read (batch, 3, side, side), 0 to 1."""
        cells: Cells = self.head(self.encoder(pixels))
        return cells


def labels_of(scenes: Scenes, index: Tensor) -> Labels:
    """Return the truth about the scenes at `index`."""
    return Labels(
        scenes.kind[index],
        scenes.colour[index],
        scenes.point[index],
        scenes.inside[index],
        scenes.held[index],
    )


def train_eyes(
    scenes: Scenes,
    profile: Profile,
    seed: int,
    device: str,
    report: Report,
    resume: Resume | None = None,
) -> Eyes:
    """Train from random start values; the same seed gives the same eyes on one machine."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    eyes = Eyes(TendonVisionConfig()).to(device).train()
    optimizer = torch.optim.AdamW(eyes.parameters(), profile.vision_rate, weight_decay=0.02)
    resume = resume or Resume(None)
    for step in range(resume.load(eyes, optimizer, generator), profile.vision_steps):
        factor = rate_factor(step, profile.vision_steps, RISE)
        set_rate(optimizer, profile.vision_rate, factor)
        loss = _step(eyes, scenes, profile.vision_batch, generator, device)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(eyes.parameters(), 1.0)
        optimizer.step()
        report(step, {'loss': float(loss.detach())})
        resume.save(step + 1, eyes, optimizer, generator)
    return eyes.eval()


def _step(
    eyes: Eyes, scenes: Scenes, batch: int, generator: torch.Generator, device: str
) -> Tensor:
    index = torch.randint(len(scenes), (batch,), generator=generator)
    labels = labels_of(scenes, index)
    pixels, point = shift(to_pixels(scenes.image[index]), labels.point, generator)
    pixels, true_colours = turn_hues(pixels, TURNED_SHARE, generator)
    pixels = disturb_light(pixels, generator).to(device)
    labels = Labels(*(part.to(device) for part in labels._replace(point=point)))
    with torch.autocast(device.split(':')[0], torch.bfloat16):
        cells = eyes(pixels)
    return dense_loss(cells, labels, true_colours.to(device))


@torch.no_grad()
def evaluate_eyes(
    eyes: nn.Module, scenes: Scenes, device: str, limit: int = 512
) -> dict[str, Any]:
    """Return shares of entities found and named, and the mean centre error [px]."""
    total = [0.0] * len(Sight._fields)
    for start in range(0, min(limit, len(scenes)), 64):
        index = torch.arange(start, min(start + 64, limit, len(scenes)))
        cells = eyes(to_pixels(scenes.image[index]).to(device))
        labels = Labels(*(part.to(device) for part in labels_of(scenes, index)))
        sight = score_sight(cells, labels, scenes.image.shape[1])
        total = [a + b for a, b in zip(total, sight, strict=True)]
    entities = max(1.0, total[0])
    return {
        name: value / entities for name, value in zip(Sight._fields[1:], total[1:], strict=True)
    }

# SPDX-License-Identifier: Apache-2.0
"""Batches of pictures for training: shifted, in other light, some with all hues turned.

Turning the hues hides the colour of a thing and keeps its shape: it makes the eyes tell shapes
apart in colours that they never had in training. Every draw comes from the generator given.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from onboard_decoder.training.planner_data import Pictures
import torch
from torch import Generator, Tensor
from torch.nn import functional

_SHIFT_PX = 4
_TURNED_SHARE = 0.5


class PictureBatch(NamedTuple):
    """Pixels (batch, 3, side, side), 0 to 1, and the truth (batch, entities).

    ``point`` is (batch, entities, 2); ``true_colours`` (batch,) says which show true colours.
    """

    pixels: Tensor
    kind: Tensor
    colour: Tensor
    inside: Tensor
    held: Tensor
    point: Tensor
    yaw: Tensor
    true_colours: Tensor


def draw_pictures(pictures: Pictures, count: int, generator: Generator) -> PictureBatch:
    """Draw a disturbed batch."""
    index = torch.randint(len(pictures), (count,), generator=generator).numpy()
    plain = picture_batch(pictures, index.tolist())
    pixels, point = _shifted(plain.pixels, plain.point, generator)
    pixels, true_colours = _hues_turned(pixels, generator)
    pixels = _in_other_light(pixels, generator)
    return plain._replace(pixels=pixels, point=point, true_colours=true_colours)


def picture_batch(pictures: Pictures, index: list[int]) -> PictureBatch:
    """Return scenes as they are."""
    pixels = torch.from_numpy(pictures.image[index]).permute(0, 3, 1, 2).float() / 255.0
    return PictureBatch(
        pixels,
        kind=torch.from_numpy(pictures.kind[index]),
        colour=torch.from_numpy(pictures.colour[index]),
        inside=torch.from_numpy(pictures.inside[index]),
        held=torch.from_numpy(pictures.held[index]),
        point=torch.from_numpy(pictures.point[index]),
        yaw=torch.from_numpy(pictures.yaw[index]),
        true_colours=torch.ones(len(index), dtype=torch.bool),
    )


def _in_other_light(pixels: Tensor, generator: Generator) -> Tensor:
    """Change brightness, tint and noise."""
    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    batch = len(pixels)
    contrast = (1.0 + 0.15 * normal(batch, 1, 1, 1)).clamp(0.6, 1.4)
    tint = 1.0 + 0.05 * normal(batch, 3, 1, 1)
    noise = 0.03 * normal(batch, 1, 1, 1) + 0.015 * normal(*pixels.shape)
    return (pixels * contrast * tint + noise).clamp(0.0, 1.0)


def _shifted(pixels: Tensor, point: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
    """Move each image by whole pixels, edges repeated, and its points with it."""
    side = pixels.shape[-1]
    padded = functional.pad(pixels, [_SHIFT_PX] * 4, mode='replicate')
    move = torch.randint(-_SHIFT_PX, _SHIFT_PX + 1, (len(pixels), 2), generator=generator)
    moved = torch.empty_like(pixels)
    for index, (dx, dy) in enumerate(move.tolist()):
        left, top = _SHIFT_PX - dx, _SHIFT_PX - dy
        moved[index] = padded[index, :, top:top + side, left:left + side]
    return moved, point + move[:, None, :].float() / side


def _hues_turned(pixels: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
    """Turn the hues of some images; return which of them still show true colours, (batch,)."""
    batch = len(pixels)
    true = torch.rand(batch, generator=generator) >= _TURNED_SHARE
    angle = 2.0 * math.pi * torch.rand(batch, generator=generator)
    gain = 0.7 + 0.6 * torch.rand(batch, generator=generator)
    grey = torch.full((3, 3), 1.0 / 3.0)
    cross = torch.tensor([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]) / math.sqrt(3.0)
    cosine, sine = (gain * angle.cos())[:, None, None], (gain * angle.sin())[:, None, None]
    rotation = grey + cosine * (torch.eye(3) - grey) + sine * cross
    turned = torch.einsum('bij,bjhw->bihw', rotation, pixels).clamp(0.0, 1.0)
    return torch.where(true[:, None, None, None], pixels, turned), true

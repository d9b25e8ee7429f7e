# SPDX-License-Identifier: Apache-2.0
"""Disturbs training images: brightness, contrast, tint, noise, a small shift, other colours.

A shift moves the labels with the image. Turning the hues hides the colour of a thing and keeps
its shape: it is what makes the eyes tell shapes apart in colours that they never had in
training. Every draw comes from the generator given.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

MAX_SHIFT_PX = 4


def to_pixels(image: Tensor) -> Tensor:
    """Turn images (batch, side, side, 3), uint8, into (batch, 3, side, side), 0 to 1."""
    return image.permute(0, 3, 1, 2).float() / 255.0


def disturb_light(pixels: Tensor, generator: Generator) -> Tensor:
    """Change brightness, tint and noise of (batch, 3, side, side), 0 to 1."""
    batch = len(pixels)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    contrast = (1.0 + 0.15 * normal(batch, 1, 1, 1)).clamp(0.6, 1.4)
    tint = 1.0 + 0.05 * normal(batch, 3, 1, 1)
    noise = 0.03 * normal(batch, 1, 1, 1) + 0.015 * normal(*pixels.shape)
    return (pixels * contrast * tint + noise).clamp(0.0, 1.0)


def shift(pixels: Tensor, point: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
    """Move each image by whole pixels, edges repeated, and its points (batch, n, 2) with it."""
    side = pixels.shape[-1]
    padded = torch.nn.functional.pad(pixels, [MAX_SHIFT_PX] * 4, mode='replicate')
    move = torch.randint(-MAX_SHIFT_PX, MAX_SHIFT_PX + 1, (len(pixels), 2), generator=generator)
    moved = torch.empty_like(pixels)
    for index, (dx, dy) in enumerate(move.tolist()):
        left, top = MAX_SHIFT_PX - dx, MAX_SHIFT_PX - dy
        moved[index] = padded[index, :, top : top + side, left : left + side]
    return moved, point + move[:, None, :].float() / side


def turn_hues(pixels: Tensor, share: float, generator: Generator) -> tuple[Tensor, Tensor]:
    """Turn all hues of some images by a random angle, and change their saturation.

    Returns the images and which of them still show true colours, (batch,), bool.
    """
    batch = len(pixels)
    true = torch.rand(batch, generator=generator) >= share
    angle = 2.0 * math.pi * torch.rand(batch, generator=generator)
    saturation = 0.7 + 0.6 * torch.rand(batch, generator=generator)
    turned = torch.einsum('bij,bjhw->bihw', _hue_rotation(angle, saturation), pixels)
    return torch.where(true[:, None, None, None], pixels, turned.clamp(0.0, 1.0)), true


def _hue_rotation(angle: Tensor, saturation: Tensor) -> Tensor:
    """Return rotations about the grey axis with a gain across it, (batch, 3, 3)."""
    grey = torch.full((3, 3), 1.0 / 3.0)
    cross = torch.tensor([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]) / math.sqrt(3.0)
    across = torch.eye(3) - grey
    cosine, sine = (saturation * angle.cos())[:, None, None], saturation * angle.sin()
    return grey + cosine * across + sine[:, None, None] * cross

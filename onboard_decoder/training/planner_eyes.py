# SPDX-License-Identifier: Apache-2.0
"""The onboard planner's eyes: a small convolutional network that says what is where.

Every cell of 4 px has two slots, one for things and one for containers: a thing in a container is
centred where the container is. The colour of a thing is read from a few pixels at its centre,
which show no shape, so that pairs of colour and kind work that training never showed.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn, Tensor
from torch.nn import functional

THINGS = ('cube', 'ball', 'cylinder')
CONTAINER = 'bin'
KINDS = (*THINGS, CONTAINER)
COLOURS = ('red', 'green', 'blue', 'yellow', 'purple', 'orange', 'white', 'black')
IMAGE_PX = 128
SIDE = IMAGE_PX // 4
_CHANNELS = 2 + len(THINGS) + len(COLOURS) + 4 + 2 + 2


class Cells(NamedTuple):
    """Readings of an image.

    presence: (batch, 2, rows, columns), logits for things and for containers.
    kind: (batch, things, rows, columns), logits.
    colour: (batch, 2, colours, rows, columns), logits by slot.
    offset: (batch, 2, 2, rows, columns), x and y of the centre in the cell, 0 to 1, by slot.
    state: (batch, 2, rows, columns), logits: rests on or in another thing; is in the gripper.
    turn: (batch, 2, rows, columns), sine and cosine of four times the yaw of a cube.
    """

    presence: Tensor
    kind: Tensor
    colour: Tensor
    offset: Tensor
    state: Tensor
    turn: Tensor


class _Down(nn.Sequential):
    """Halves the side."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__(
            nn.Conv2d(width_in, width_out, 3, 2, 1, bias=False), nn.BatchNorm2d(width_out),
            nn.ReLU())


class _Residual(nn.Module):
    """Two convolutions added to their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        """Keep the shape (batch, width, side, side)."""
        return functional.relu(x + self.inner(x))


class Eyes(nn.Module):
    """Image to cells."""

    def __init__(self, widths: tuple[int, int, int, int] = (24, 40, 72, 96)) -> None:
        super().__init__()
        a, b, c, d = widths
        self.near = nn.Sequential(_Down(3, a), _Down(a, b), _Residual(b))  # 4 px
        self.middle = nn.Sequential(_Down(b, c), _Residual(c), _Residual(c))  # 8 px
        self.far = nn.Sequential(_Down(c, d), _Residual(d), _Residual(d))  # 16 px
        self.far_to_middle = nn.Conv2d(d, c, 1)
        self.mix_middle = _Residual(c)
        self.middle_to_near = nn.Conv2d(c, b, 1)
        self.mix_near = _Residual(b)
        self.read = nn.Sequential(
            nn.Conv2d(b, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, _CHANNELS, 1))
        self.tint = nn.Sequential(
            nn.Conv2d(6, 48, 1), nn.ReLU(), nn.Conv2d(48, len(COLOURS), 1))

    def forward(self, pixels: Tensor) -> Cells:
        """Read (batch, 3, 128, 128), RGB 0 to 1."""
        near = self.near((pixels - 0.5) * 4.0)
        middle = self.middle(near)
        far = self.far_to_middle(self.far(middle))
        middle = self.mix_middle(middle + functional.interpolate(far, scale_factor=2.0))
        wide = functional.interpolate(self.middle_to_near(middle), scale_factor=2.0)
        raw = self.read(self.mix_near(near + wide)).float()
        presence, kind, bin_colour, offset, state, turn = raw.split(
            [2, len(THINGS), len(COLOURS), 4, 2, 2], dim=1)
        offset = offset.unflatten(1, (2, 2))
        colour = torch.stack([self._colour_at(pixels, offset[:, 0].detach()), bin_colour], dim=1)
        return Cells(presence, kind, colour, offset, state, turn)

    def _colour_at(self, pixels: Tensor, offset: Tensor) -> Tensor:
        """Return colour logits (batch, colours, rows, columns) from the pixels at the centres."""
        tint = functional.avg_pool2d(pixels.float(), 5, 1, 2, count_include_pad=False)
        order = torch.arange(SIDE, device=offset.device, dtype=offset.dtype)
        corner = torch.stack([
            order[None, :].expand(SIDE, SIDE), order[:, None].expand(SIDE, SIDE)])
        centre = (corner[None] + offset) / SIDE  # (batch, 2, rows, columns), x and y
        grid = centre.permute(0, 2, 3, 1) * 2.0 - 1.0
        there = functional.grid_sample(tint, grid, align_corners=False)
        whole = tint.mean(dim=(2, 3), keepdim=True).expand_as(there)
        logits: Tensor = self.tint(torch.cat([there, whole], dim=1) * 4.0 - 2.0)
        return logits.float()

# SPDX-License-Identifier: Apache-2.0
"""What is where: every 4 px cell of the image says whether a thing is centred in it.

A cell has two slots, one for things and one for bins, because a thing inside a bin is
centred where the bin is. Kind and colour are read apart, so that unseen pairs of them work: the
colour of a thing is read from a few pixels at its centre, which show no shape.
"""

from __future__ import annotations

from typing import NamedTuple

from cloud_backbone.model.configuration import COLOURS, KINDS
from cloud_backbone.model.vision_encoder import VisionFeatures
import torch
from torch import nn, Tensor
from torch.nn import functional

SLOTS = 2
CHANNELS = 1 + len(KINDS) + len(COLOURS) + 2 + 2
CANDIDATES = 32
COLOUR_WIDTH = 64
SAME_THING = 0.06  # [share of the image side]


class Cells(NamedTuple):
    """Readings; the leading axes are (batch, slots, rows, columns) or (batch, candidates).

    presence: logit that a thing is centred here.
    kind, colour: logits, (..., kinds) and (..., colours).
    offset: centre within the cell, x and y, 0 to 1, (..., 2).
    supported, held: logits that it rests in or on another thing, or in the gripper.
    """

    presence: Tensor
    kind: Tensor
    colour: Tensor
    offset: Tensor
    supported: Tensor
    held: Tensor


class Candidates(NamedTuple):
    """The most likely things of an image, best first.

    point: (batch, candidates, 2), 0 to 1. is_bin: (batch, candidates), bool.
    cell: (batch, candidates), index into the flattened fine map. reading: their Cells.
    """

    point: Tensor
    is_bin: Tensor
    cell: Tensor
    reading: Cells

    def of_images(self, index: Tensor) -> Candidates:
        """Return the things of the images at `index` (rows,), one row each."""
        reading = Cells(*(part[index] for part in self.reading))
        return Candidates(self.point[index], self.is_bin[index], self.cell[index], reading)


class DenseHead(nn.Module):
    """One linear reading of the fine map, 2 x 2 cells per column, and a colour reader."""

    def __init__(self, fine_width: int) -> None:
        super().__init__()
        self.read = nn.Conv2d(fine_width, 4 * SLOTS * CHANNELS, 1)
        self.tint = nn.Sequential(
            nn.Conv2d(6, COLOUR_WIDTH, 1), nn.ReLU(), nn.Conv2d(COLOUR_WIDTH, len(COLOURS), 1)
        )

    def forward(self, features: VisionFeatures) -> Cells:
        """Read features as Cells (batch, slots, 2 fine_side, 2 fine_side)."""
        cells = self._cells(features.fine)
        thing = self._thing_colour(features.tint, cells.offset[:, 0].detach())
        return cells._replace(colour=torch.stack([thing, cells.colour[:, 1]], dim=1))

    def _thing_colour(self, tint: Tensor, offset: Tensor) -> Tensor:
        """Return colour logits (batch, rows, columns, colours) from the colour at the centres."""
        side = offset.shape[1]
        order = torch.arange(side, device=offset.device, dtype=offset.dtype)
        row, column = torch.meshgrid(order, order, indexing='ij')
        centre = (torch.stack([column, row], dim=-1) + offset) / side  # 0 to 1
        there = functional.grid_sample(tint, centre * 2.0 - 1.0, align_corners=False)
        whole = tint.mean(dim=(2, 3), keepdim=True).expand_as(there)
        logits: Tensor = self.tint(torch.cat([there, whole], dim=1) * 4.0 - 2.0)
        return logits.float().permute(0, 2, 3, 1)

    def _cells(self, fine: Tensor) -> Cells:
        batch, _, side, _ = fine.shape
        raw = self.read(fine).float().view(batch, SLOTS, CHANNELS, 2, 2, side, side)
        raw = raw.permute(
            0, 1, 5, 3, 6, 4, 2
        )  # (batch, slots, row, sub-row, col, sub-col, channel)
        return split_channels(raw.reshape(batch, SLOTS, 2 * side, 2 * side, CHANNELS))


def split_channels(raw: Tensor) -> Cells:
    """Name the parts of (..., channels)."""
    kinds, colours = 1 + len(KINDS), 1 + len(KINDS) + len(COLOURS)
    return Cells(
        presence=raw[..., 0],
        kind=raw[..., 1:kinds],
        colour=raw[..., kinds:colours],
        offset=raw[..., colours : colours + 2],
        supported=raw[..., colours + 2],
        held=raw[..., colours + 3],
    )


def pick_candidates(cells: Cells, count: int) -> Candidates:
    """Return the `count` likeliest things, without second readings of the same one."""
    side = cells.presence.shape[-1]
    _, index = cells.presence.flatten(1).topk(CANDIDATES, dim=1)
    reading = _take_reading(cells, index)
    row, column = (index // side) % side, index % side
    point = torch.stack([column, row], dim=-1).float() + reading.offset
    point = (point / side).clamp(0.0, 1.0)
    score = reading.presence - 1e4 * _repeated(point, reading).float()
    keep = score.topk(count, dim=1).indices
    fine = (row // 2) * (side // 2) + column // 2
    return Candidates(
        point=_take(point, keep),
        is_bin=_take(index >= side * side, keep),
        cell=_take(fine, keep),
        reading=Cells(*(_take(part, keep) for part in reading)),
    )


def _repeated(point: Tensor, reading: Cells) -> Tensor:
    """Mark candidates (batch, candidates) that a likelier one of the same name covers."""
    name = reading.kind.argmax(-1) * len(COLOURS) + reading.colour.argmax(-1)
    same = name[:, :, None] == name[:, None, :]
    near = (point[:, :, None] - point[:, None, :]).norm(dim=-1) < SAME_THING
    better = torch.ones(same.shape[1:], dtype=torch.bool, device=point.device).tril(-1)
    return (same & near & better).any(dim=-1)


def _take_reading(cells: Cells, index: Tensor) -> Cells:
    """Read the flattened cells at `index` (batch, candidates)."""
    return Cells(*(_take(part.flatten(1, 3), index) for part in cells))


def _take(values: Tensor, index: Tensor) -> Tensor:
    """Gather `values` (batch, n, ...) along n at `index` (batch, m)."""
    if values.ndim == 3:
        index = index[..., None].expand(-1, -1, values.shape[-1])
    return values.gather(1, index)

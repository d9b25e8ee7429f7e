# SPDX-License-Identifier: Apache-2.0
"""Loss of the dense head against the truth of the simulator, and how well it sees.

Kind and colour are scored apart. Knows scenes, not instructions.
"""

from __future__ import annotations

from typing import NamedTuple

from cloud_backbone.model.configuration import BIN
from cloud_backbone.model.dense_head import Cells
import torch
from torch import Tensor
from torch.nn import functional

PRESENCE_WEIGHT = 16.0


class Labels(NamedTuple):
    """Truth about images: kind, colour, inside, held (batch, entities); point (..., 2)."""

    kind: Tensor
    colour: Tensor
    point: Tensor
    inside: Tensor
    held: Tensor


class Assignment(NamedTuple):
    """Where each entity that is in the image belongs; all are (entities_in_batch,)."""

    batch: Tensor
    slot: Tensor
    row: Tensor
    column: Tensor
    seen: Tensor


def assign(labels: Labels, side: int) -> Assignment:
    """Return the cell of every entity whose centre lies in the image."""
    inside_image = ((labels.point >= 0.0) & (labels.point < 1.0)).all(dim=-1)
    seen = (labels.kind >= 0) & inside_image  # (batch, entities)
    batch = torch.arange(len(seen), device=seen.device)[:, None].expand_as(seen)[seen]
    cell = (labels.point[seen] * side).long().clamp(0, side - 1)
    slot = (labels.kind[seen] == BIN).long()
    return Assignment(batch, slot, cell[:, 1], cell[:, 0], seen)


def dense_loss(cells: Cells, labels: Labels, true_colours: Tensor | None = None) -> Tensor:
    """Return presence, kind, colour, offset and state losses as one number.

    true_colours: (batch,), bool, images that show true colours; None for all. Only these count
    for colour; only the others count for kind, so that it is never read off the colour.
    """
    if true_colours is None:
        true_colours = turned = torch.ones_like(labels.kind[:, 0], dtype=torch.bool)
    else:
        turned = ~true_colours
    side = cells.presence.shape[-1]
    at = assign(labels, side)
    index = (at.batch, at.slot, at.row, at.column)
    wanted = torch.zeros_like(cells.presence)
    wanted[index] = 1.0
    weight = torch.tensor(PRESENCE_WEIGHT, device=wanted.device)
    presence = functional.binary_cross_entropy_with_logits(
        cells.presence, wanted, pos_weight=weight
    )
    offset = labels.point[at.seen] * side - torch.stack([at.column, at.row], dim=-1)
    supported = (labels.inside[at.seen] >= 0).float()
    held = (labels.held[at.seen] > 0).float()
    return (
        8.0 * presence
        + _name_loss(cells.kind[index], labels.kind[at.seen], turned[at.batch])
        + _name_loss(cells.colour[index], labels.colour[at.seen], true_colours[at.batch])
        + 2.0 * functional.l1_loss(cells.offset[index], offset)
        + functional.binary_cross_entropy_with_logits(cells.supported[index], supported)
        + functional.binary_cross_entropy_with_logits(cells.held[index], held)
    )


def _name_loss(logits: Tensor, name: Tensor, counts: Tensor) -> Tensor:
    """Return the mean loss over the entities that count, (entities,)."""
    each = functional.cross_entropy(logits, name, reduction='none')
    return (each * counts).sum() / counts.sum().clamp(min=1)


class Sight(NamedTuple):
    """Sums over entities: how many, found, right kind, right colour, both right, error [px]."""

    entities: int
    found: float
    kind: float
    colour: float
    named: float
    supported: float
    error_px: float


@torch.no_grad()
def score_sight(cells: Cells, labels: Labels, image_px: int) -> Sight:
    """Score readings at the cells where the entities are."""
    side = cells.presence.shape[-1]
    at = assign(labels, side)
    index = (at.batch, at.slot, at.row, at.column)
    kind = cells.kind[index].argmax(-1) == labels.kind[at.seen]
    colour = cells.colour[index].argmax(-1) == labels.colour[at.seen]
    cell = torch.stack([at.column, at.row], dim=-1)
    point = (cells.offset[index] + cell) / side
    error = (point - labels.point[at.seen]).norm(dim=-1) * image_px
    supported = (cells.supported[index] > 0) == (labels.inside[at.seen] >= 0)
    return Sight(
        entities=len(kind),
        found=float((cells.presence[index] > 0).float().sum()),
        kind=float(kind.float().sum()),
        colour=float(colour.float().sum()),
        named=float((kind & colour).float().sum()),
        supported=float(supported.float().sum()),
        error_px=float(error.sum()),
    )

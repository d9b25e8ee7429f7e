# SPDX-License-Identifier: Apache-2.0
"""What the onboard planner's eyes and ears are taught, against the simulator's truth."""

from __future__ import annotations

from onboard_decoder.training.planner_ears import Heard
from onboard_decoder.training.planner_eyes import Cells, CONTAINER, KINDS, SIDE
from onboard_decoder.training.planner_pictures import PictureBatch
from onboard_decoder.training.planner_sentences import SentenceBatch
import torch
from torch import Tensor
from torch.nn import functional

_PRESENCE_WEIGHT = 16.0
_CONTAINER = KINDS.index(CONTAINER)
_CUBE = KINDS.index('cube')


def eyes_loss(cells: Cells, truth: PictureBatch) -> Tensor:
    """Return presence, kind, colour, offset, state and yaw losses as one number.

    Images with turned hues count for the kind, so that it is never read off the colour; those
    with true colours count for the colour.
    """
    seen = (truth.kind >= 0) & ((truth.point >= 0.0) & (truth.point < 1.0)).all(dim=-1)
    batch = torch.arange(len(seen))[:, None].expand_as(seen)[seen]
    slot = (truth.kind[seen] == _CONTAINER).long()
    cell = (truth.point[seen] * SIDE).long().clamp(0, SIDE - 1)  # (entities, 2), x and y
    column, row = cell.unbind(-1)
    wanted = torch.zeros_like(cells.presence)
    wanted[batch, slot, row, column] = 1.0
    presence = functional.binary_cross_entropy_with_logits(
        cells.presence, wanted, pos_weight=torch.tensor(_PRESENCE_WEIGHT))
    colour = cells.colour[batch, slot, :, row, column]
    offset = cells.offset[batch, slot, :, row, column]
    thing = slot == 0
    at = batch[thing], row[thing], column[thing]
    kind = cells.kind.permute(0, 2, 3, 1)[at]
    state = cells.state.permute(0, 2, 3, 1)[at]
    is_state = torch.stack([truth.inside[seen][thing] >= 0, truth.held[seen][thing] > 0], -1)
    return (
        8.0 * presence
        + _names(kind, truth.kind[seen][thing], ~truth.true_colours[at[0]])
        + _names(colour, truth.colour[seen], truth.true_colours[batch])
        + 2.0 * functional.l1_loss(offset, truth.point[seen] * SIDE - cell)
        + 2.0 * functional.binary_cross_entropy_with_logits(state, is_state.float())
        + _turn_loss(cells, truth, seen)
    )


def ears_loss(heard: Heard, truth: SentenceBatch) -> Tensor:
    """Return the loss of what was heard; what a sentence does not name does not count."""
    total = torch.zeros(())
    for logits, right in zip(heard, truth[1:], strict=True):
        named = right >= 0
        each = functional.cross_entropy(logits, right.clamp(min=0), reduction='none')
        total = total + (each * named).sum() / named.sum().clamp(min=1)
    return total


def _names(logits: Tensor, name: Tensor, counts: Tensor) -> Tensor:
    """Return the mean loss over the entities that count, (entities,)."""
    each = functional.cross_entropy(logits, name, reduction='none')
    return (each * counts).sum() / counts.sum().clamp(min=1)


def _turn_loss(cells: Cells, truth: PictureBatch, seen: Tensor) -> Tensor:
    """Return the loss of the yaw of cubes; a cube looks the same after a quarter turn."""
    cubes = seen & (truth.kind == _CUBE)
    batch = torch.arange(len(cubes))[:, None].expand_as(cubes)[cubes]
    column, row = (truth.point[cubes] * SIDE).long().clamp(0, SIDE - 1).unbind(-1)
    turn = cells.turn.permute(0, 2, 3, 1)[batch, row, column]
    angle = 4.0 * truth.yaw[cubes]
    wanted = torch.stack([angle.sin(), angle.cos()], dim=-1)
    return functional.mse_loss(turn, wanted) if len(batch) else turn.sum()

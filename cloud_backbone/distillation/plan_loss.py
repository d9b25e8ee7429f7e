# SPDX-License-Identifier: Apache-2.0
"""Loss of the answer's tokens: decisions weigh more, locations may be a little off.

A location's target is a Gaussian around the true value, so that the expectation around the
likeliest bin is finer than a bin.
"""

from __future__ import annotations

from typing import NamedTuple

from cloud_backbone.distillation.turns import TurnBatch
from cloud_backbone.model.configuration import LOCATION_TOKENS
import torch
from torch import Tensor
from torch.nn import functional

SPREAD_BINS = 1.0
DECISION_WEIGHT = 8.0


class PlanLoss(NamedTuple):
    """total: weighted mean. words, locations: plain means, to look at."""

    total: Tensor
    words: Tensor
    locations: Tensor


def location_targets(location: Tensor) -> Tensor:
    """Return the wanted distribution (locations, bins) around values (locations,), 0 to 1."""
    bins = torch.arange(LOCATION_TOKENS, device=location.device)
    gap = bins - (location[:, None] * LOCATION_TOKENS - 0.5)
    weight = torch.exp(-0.5 * (gap / SPREAD_BINS) ** 2)
    return weight / weight.sum(dim=-1, keepdim=True)


def decision_weights(batch: TurnBatch, decisive: Tensor) -> Tensor:
    """Return the weight of each answer token (answer_tokens,).

    decisive: (vocabulary,), bool, tokens that settle what kind of answer it is. The first
    token of an answer always does.
    """
    weight = torch.ones(batch.answer.shape, device=batch.answer.device)
    first = batch.answer & (batch.answer.long().cumsum(dim=1) == 1)
    decides = first | (batch.answer & decisive[batch.target])
    weight[decides] = DECISION_WEIGHT
    return weight[batch.answer]


def plan_loss(logits: Tensor, batch: TurnBatch, decisive: Tensor, location_start: int) -> PlanLoss:
    """Score logits (answer_tokens, vocabulary), in the order of `batch.answer`."""
    score = functional.log_softmax(logits.float(), dim=-1)
    loss = -score.gather(1, batch.target[batch.answer][:, None])[:, 0]
    where = batch.is_location[batch.answer]
    wanted = location_targets(batch.location)
    bins = score[where][:, location_start : location_start + LOCATION_TOKENS]
    located = -(wanted * bins).sum(dim=-1)
    loss = loss.masked_scatter(where, located)
    weight = decision_weights(batch, decisive)
    total = (loss * weight).sum() / weight.sum()
    return PlanLoss(total, loss[~where].mean().detach(), located.mean().detach())

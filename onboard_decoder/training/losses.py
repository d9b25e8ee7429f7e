# SPDX-License-Identifier: Apache-2.0
"""What a good chunk is, as numbers to minimise.

Errors of arm joints count by how far they move the tool, and more the nearer the goal is: far away
a centimetre does not matter, at the goal a millimetre does. Knows no network and no data.
"""

from __future__ import annotations

from dataclasses import dataclass

from onboard_decoder.training.dataset import Batch
from onboard_decoder.training.decoder_model import Prediction
import torch
from torch import Tensor

LEVER = (0.55, 0.55, 0.45, 0.25, 0.25, 0.12)    # [m/rad] how far one radian moves the tool
PERIOD_S = 0.02
ALLOWED = 0.9           # share of the acceleration limit that costs nothing


@dataclass(frozen=True)
class Losses:
    """Parts of the loss, each a scalar of order one at the start and 0.01 at the end."""

    arm: Tensor
    pace: Tensor
    finger: Tensor
    remaining: Tensor
    goal: Tensor
    limit: Tensor

    def total(self) -> Tensor:
        """Weighted sum."""
        copied = self.arm + 0.5 * self.pace + self.finger + 0.5 * self.remaining + self.goal
        return copied + self.limit


def losses_of(prediction: Prediction, batch: Batch, bends: Tensor) -> Losses:
    """Compare a prediction with the demonstrations of its batch.

    ``bends`` are the largest accelerations of the arm (joints - 1,).
    """
    lever = torch.tensor(LEVER[:prediction.goal.shape[1]])
    way = (batch['goal'] - batch['joints'][:, :-1]) * lever
    speed = batch['velocities'][:, :-1] * lever
    weight = 1 / (0.005 + 0.1 * way.norm(dim=1) + 0.03 * speed.norm(dim=1))    # (batch,)
    error = (prediction.chunk - batch['chunk'])[..., :-1] * lever               # (b, h, arm) [m]
    # Without delay the state is the row before the first; a step from there counts as well.
    before = error[:, :1] * (batch['delay'] > 0).unsqueeze(2)
    rate = torch.cat([before, error], dim=1).diff(dim=1) / PERIOD_S             # (b, h, arm)
    finger = (prediction.chunk - batch['chunk'])[..., -1]
    bend = prediction.chunk[..., :-1].diff(n=2, dim=1) / PERIOD_S**2 / bends
    above = (bend.abs() - ALLOWED).clamp(min=0)
    left = prediction.remaining - batch['remaining']
    return Losses(
        arm=(weight * error.norm(dim=2).mean(1)).mean(),
        pace=(weight * rate.norm(dim=2).mean(1)).mean() * 0.05,
        finger=finger.abs().mean() / 0.01,
        remaining=(left.abs() / (0.08 + batch['remaining'])).mean(),
        goal=((prediction.goal - batch['goal']) * lever).norm(dim=1).mean() / 0.005,
        limit=above.sum((1, 2)).log1p().mean(),
    )

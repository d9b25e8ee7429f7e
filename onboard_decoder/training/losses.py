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
LATENT_NOISE_SHARE = 0.3


@dataclass(frozen=True)
class Losses:
    """Parts of the loss, each a scalar of order one at the start and 0.01 at the end."""

    arm: Tensor
    pace: Tensor
    finger: Tensor
    remaining: Tensor
    goal: Tensor

    def total(self) -> Tensor:
        """Weighted sum."""
        return self.arm + 0.5 * self.pace + self.finger + 0.5 * self.remaining + self.goal


def losses_of(prediction: Prediction, batch: Batch) -> Losses:
    """Compare a prediction with the demonstrations of its batch."""
    lever = torch.tensor(LEVER[:prediction.goal.shape[1]])
    way = (batch['goal'] - batch['joints'][:, :-1]) * lever
    speed = batch['velocities'][:, :-1] * lever
    weight = 1 / (0.005 + 0.1 * way.norm(dim=1) + 0.03 * speed.norm(dim=1))    # (batch,)
    error = (prediction.chunk - batch['chunk'])[..., :-1] * lever               # (b, h, arm) [m]
    rate = error.diff(dim=1) / PERIOD_S
    finger = (prediction.chunk - batch['chunk'])[..., -1]
    left = prediction.remaining - batch['remaining']
    return Losses(
        arm=(weight * error.norm(dim=2).mean(1)).mean(),
        pace=(weight * rate.norm(dim=2).mean(1)).mean() * 0.05,
        finger=finger.abs().mean() / 0.01,
        remaining=(left.abs() / (0.08 + batch['remaining'])).mean(),
        goal=((prediction.goal - batch['goal']) * lever).norm(dim=1).mean() / 0.005,
    )


def with_latents(batch: Batch, generator: torch.Generator) -> Batch:
    """Replace some zero latents by noise, so that a decoder works with and without them."""
    latent = batch['latent']
    chosen = torch.rand(len(latent), 1, generator=generator) < LATENT_NOISE_SHARE
    noise = torch.randn(latent.shape, generator=generator)
    return {**batch, 'latent': torch.where(chosen, noise, latent)}

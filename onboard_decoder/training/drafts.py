# SPDX-License-Identifier: Apache-2.0
"""What a batch gets beside its demonstrations: noisy chunks, hidden accelerations, latents.

Flow matching: the decoder sees A = (1 - tau) * noise + tau * chunk and is to say which chunk that
is. Accelerations are hidden half of the time, as they are unknown where nothing plays; then the
noisy chunk is what tells them. Knows no network.
"""

from __future__ import annotations

from onboard_decoder.training.dataset import Batch
import torch
from torch import Generator, Tensor

HIDDEN_SHARE = 0.4
BEGUN_SHARE = 0.25          # of the samples see noise alone: where every decoding starts
LARGEST_TAU = 0.9           # a decoding looks last at (steps - 1) / steps
LATENT_NOISE_SHARE = 0.3
_BEND_ERROR = 0.03          # of the largest acceleration: what a chunk's rows tell is not exact


def with_drafts(batch: Batch, spread: Tensor, bends: Tensor, generator: Generator) -> Batch:
    """Return the batch with 'draft', 'tau' and 'known', its accelerations hidden at times.

    Args:
        batch: of demonstrations.
        spread: deviation of the noise (joints,).
        bends: largest accelerations of the arm (joints - 1,).
        generator: of every draw.
    """
    chunk = batch['chunk']
    count = len(chunk)

    def uniform() -> Tensor:
        return torch.rand(count, 1, generator=generator)

    tau = LARGEST_TAU * uniform() * (uniform() > BEGUN_SHARE)
    noise = spread * torch.randn(chunk.shape, generator=generator)
    start = batch['joints'].unsqueeze(1)
    draft = start + (1 - tau.unsqueeze(2)) * noise + tau.unsqueeze(2) * (chunk - start)
    known = (uniform() > HIDDEN_SHARE).float()
    error = torch.randn(count, len(bends), generator=generator) * _BEND_ERROR
    accelerations = (batch['accelerations'] + error * bends) * known
    return {**batch, 'accelerations': accelerations, 'known': known, 'draft': draft, 'tau': tau}


def with_latents(batch: Batch, generator: Generator) -> Batch:
    """Replace some zero latents by noise, so that a decoder works with and without them."""
    latent = batch['latent']
    chosen = torch.rand(len(latent), 1, generator=generator) < LATENT_NOISE_SHARE
    noise = torch.randn(latent.shape, generator=generator)
    return {**batch, 'latent': torch.where(chosen, noise, latent)}

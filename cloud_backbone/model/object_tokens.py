# SPDX-License-Identifier: Apache-2.0
"""Image to tokens of the language decoder: pooled patches, then the things in the image.

An object token carries the word vectors of its colour and kind (the same rows that the
instruction uses, so that the decoder matches words instead of learning pairs by heart), a
code of its place, and the words of the things that it touches or rests in.
"""

from __future__ import annotations

from typing import NamedTuple

from cloud_backbone.model.configuration import PATCH_TOKENS, TendonVlmConfig
from cloud_backbone.model.dense_head import Candidates, Cells, DenseHead, pick_candidates
from cloud_backbone.model.position_code import grid_code, point_code
from cloud_backbone.model.vision_encoder import VisionEncoder, VisionFeatures
import torch
from torch import nn, Tensor
from torch.nn import functional

REACHES = (0.03, 0.165)  # start of the learned radii [share of the image side]
STRETCH = 1.25  # the camera looks down at a slant: a way along the image's y is longer
STEEPNESS = 100.0
POSITION_GAIN = 0.25
FEATURE_GAIN = 0.05


class ImageTokens(NamedTuple):
    """tokens: (batch, image_tokens, hidden); candidates: the things that they stand for."""

    tokens: Tensor
    candidates: Candidates


class WordTable(NamedTuple):
    """Rows of the decoder's word table.

    colours: (colours, hidden), or (batch, colours, hidden) where images differ in names.
    kinds: (kinds, hidden).
    """

    colours: Tensor
    kinds: Tensor


class Projector(nn.Module):
    """Brings features to the decoder's width, so weak that words and places stay loud."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.out = nn.Linear(hidden, hidden)
        self.gain = nn.Parameter(torch.full((hidden,), FEATURE_GAIN))

    def forward(self, features: Tensor) -> Tensor:
        """Map (..., width) to (..., hidden)."""
        mixed = self.out(functional.gelu(self.up(self.norm(features)))).float()
        return functional.rms_norm(mixed, mixed.shape[-1:], eps=1e-5) * self.gain.float()


class ObjectTokens(nn.Module):
    """Turns vision features into the tokens that stand for an image."""

    def __init__(self, config: TendonVlmConfig, encoder: VisionEncoder) -> None:
        super().__init__()
        hidden = config.text_config.hidden_size
        self.object_tokens = config.object_tokens
        self.pool = encoder.coarse_side // int(PATCH_TOKENS**0.5)
        self.head = DenseHead(encoder.fine_width)
        self.patch = Projector(encoder.coarse_width, hidden)
        self.object = Projector(encoder.fine_width, hidden)
        side = int(PATCH_TOKENS**0.5)
        self.patch_position = nn.Parameter(POSITION_GAIN * grid_code(side, hidden))
        self.position_gain = nn.Parameter(torch.full((hidden,), POSITION_GAIN))
        self.reach = nn.Parameter(torch.tensor(REACHES))
        self.stretch = nn.Parameter(torch.tensor([1.0, STRETCH]))
        self.neighbour = nn.ModuleList(nn.Linear(hidden, hidden, bias=False) for _ in REACHES)
        self.state = nn.Parameter(0.1 * torch.randn(2, hidden))

    def forward(self, features: VisionFeatures, words: WordTable) -> ImageTokens:
        """Return patch tokens, then object tokens."""
        found = self.find(features)
        return ImageTokens(self.tell(features, found, words), found)

    def find(self, features: VisionFeatures) -> Candidates:
        """Return the things in each image."""
        return pick_candidates(self.head(features), self.object_tokens)

    def tell(self, features: VisionFeatures, found: Candidates, words: WordTable) -> Tensor:
        """Return the tokens (batch, image_tokens, hidden) of images and what is in them."""
        return torch.cat([self._patches(features), self._objects(features, found, words)], 1)

    def _patches(self, features: VisionFeatures) -> Tensor:
        """Return (batch, patch_tokens, hidden)."""
        batch, cells, width = features.coarse.shape
        side = int(cells**0.5)
        grid = features.coarse.transpose(1, 2).reshape(batch, width, side, side)
        pooled = functional.avg_pool2d(grid, self.pool).flatten(2).transpose(1, 2)
        return self.patch(pooled) + self.patch_position.float()

    def _objects(self, features: VisionFeatures, found: Candidates, words: WordTable) -> Tensor:
        """Return (batch, object_tokens, hidden); an unlikely thing fades to zero."""
        fine = features.fine.flatten(2).transpose(1, 2)  # (batch, fine_cells, fine_width)
        index = found.cell[..., None].expand(-1, -1, fine.shape[-1])
        place = point_code(found.point.detach(), self.position_gain.numel())
        name = self._name(found.reading, words)
        presence = torch.sigmoid(found.reading.presence.detach())[..., None]
        token = self.object(fine.gather(1, index)) + name
        token = token + place * self.position_gain.float() + self._state(found.reading)
        token = token + self._neighbours(found, name * presence, presence)
        return token * presence

    def _name(self, reading: Cells, words: WordTable) -> Tensor:
        """Return the expected word vector of colour and kind, (batch, object_tokens, hidden)."""
        colour = reading.colour.detach().softmax(-1) @ words.colours.float()
        return colour + reading.kind.detach().softmax(-1) @ words.kinds.float()

    def _state(self, reading: Cells) -> Tensor:
        flags = torch.stack([reading.supported, reading.held], dim=-1).detach()
        return torch.sigmoid(flags) @ self.state.float()

    def _neighbours(self, found: Candidates, name: Tensor, presence: Tensor) -> Tensor:
        """Return words of the things within each reach, (batch, object_tokens, hidden)."""
        point = found.point.detach() * self.stretch.float()
        gap = (point[:, :, None] - point[:, None, :]).norm(dim=-1)
        others = 1.0 - torch.eye(gap.shape[-1], device=gap.device)
        total = torch.zeros_like(name)
        for reach, mix in zip(self.reach.float(), self.neighbour, strict=True):
            near = torch.sigmoid((reach - gap) * STEEPNESS) * others
            total = total + mix(near @ name).float()
        return total

# SPDX-License-Identifier: Apache-2.0
"""Picture to features: a convolutional stem, a few transformer blocks, a fused finer map.

Knows nothing about objects or words; `dense_head` reads objects out of the fine map.
"""

from __future__ import annotations

from typing import NamedTuple

from cloud_backbone.model.configuration import TendonVisionConfig
import torch
from torch import nn, Tensor
from torch.nn import functional


class VisionFeatures(NamedTuple):
    """What the encoder sees.

    coarse: (batch, coarse_cells, coarse_width), one token per 16 x 16 px.
    fine: (batch, fine_width, fine_side, fine_side), one column per 8 x 8 px.
    tint: (batch, 3, image_size, image_size), mean colour of 5 x 5 px, 0 to 1.
    """

    coarse: Tensor
    fine: Tensor
    tint: Tensor


class Down(nn.Module):
    """Halves the side: convolution, batch norm, ReLU."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width_in, width_out, 3, 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(width_out)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, width_in, side, side) to (batch, width_out, side / 2, side / 2)."""
        return functional.relu(self.norm(self.conv(x)))


class Residual(nn.Module):
    """Two convolutions added to their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv_a = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm_a = nn.BatchNorm2d(width)
        self.conv_b = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm_b = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        """Keep the shape (batch, width, side, side)."""
        inner = functional.relu(self.norm_a(self.conv_a(x)))
        return x + self.norm_b(self.conv_b(inner))


class Block(nn.Module):
    """Pre-norm transformer block over all cells of the image."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = width // 64
        self.norm_a = nn.LayerNorm(width)
        self.norm_b = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 3 * width)
        self.down = nn.Linear(3 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Keep the shape (batch, cells, width)."""
        batch, cells, width = x.shape
        split = self.qkv(self.norm_a(x)).view(batch, cells, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)  # (batch, heads, cells, head_dim)
        seen = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, cells, width))
        return x + self.down(functional.gelu(self.up(self.norm_b(x))))


class VisionEncoder(nn.Module):
    """RGB image to coarse tokens and a fine map."""

    def __init__(self, config: TendonVisionConfig) -> None:
        super().__init__()
        a, b, c, d = config.widths
        self.image_size = config.image_size
        self.coarse_side = config.image_size // 16
        self.fine_side = config.image_size // 8
        self.coarse_width, self.fine_width = d, c
        self.stem = nn.Sequential(
            Down(3, a), Down(a, b), Residual(b), Down(b, c), Residual(c), Residual(c)
        )
        self.down = Down(c, d)
        self.position = nn.Parameter(torch.randn(1, self.coarse_side**2, d) * 0.02)
        self.blocks = nn.ModuleList(Block(d) for _ in range(config.depth))
        self.norm = nn.LayerNorm(d)
        self.widen = nn.Linear(d, 4 * c)
        self.fuse = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.fuse_norm = nn.BatchNorm2d(c)

    def forward(self, pixel_values: Tensor) -> VisionFeatures:
        """Encode images (batch, 3, image_size, image_size), RGB 0 to 1."""
        if pixel_values.ndim != 4 or pixel_values.shape[1:] != (
            3,
            self.image_size,
            self.image_size,
        ):
            raise ValueError(
                f'pixel_values has shape {tuple(pixel_values.shape)}, '
                f'but must be (batch, 3, {self.image_size}, {self.image_size})'
            )
        skip = self.stem((pixel_values - 0.5) * 4.0)
        coarse = self.down(skip).flatten(2).transpose(1, 2) + self.position
        for block in self.blocks:
            coarse = block(coarse)
        coarse = self.norm(coarse)
        tint = functional.avg_pool2d(pixel_values.float(), 5, 1, 2, count_include_pad=False)
        return VisionFeatures(coarse, self._fine(coarse, skip), tint)

    def _fine(self, coarse: Tensor, skip: Tensor) -> Tensor:
        """Bring the coarse tokens back to the fine grid and join them with the stem."""
        side = self.coarse_side
        wide = self.widen(coarse).transpose(1, 2).reshape(len(coarse), -1, side, side)
        joined = functional.relu(skip + functional.pixel_shuffle(wide, 2))
        return joined + functional.relu(self.fuse_norm(self.fuse(joined)))

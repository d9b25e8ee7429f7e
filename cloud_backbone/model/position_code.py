# SPDX-License-Identifier: Apache-2.0
"""Smooth code of a coordinate: sines and cosines, coarse to fine.

Rotary positions give the values of attention no place in the image; this code does.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def coordinate_code(value: Tensor, size: int) -> Tensor:
    """Return the code of coordinates `value` (...), 0 to 1, as (..., size)."""
    octaves = torch.linspace(-1.0, 5.0, size // 2, device=value.device, dtype=torch.float32)
    angle = 2.0 * math.pi * value.float()[..., None] * torch.exp2(octaves)
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


def point_code(point: Tensor, size: int) -> Tensor:
    """Return the code of image points `point` (..., 2), 0 to 1, as (..., size): x, then y."""
    return torch.cat(
        [coordinate_code(point[..., 0], size // 2), coordinate_code(point[..., 1], size // 2)],
        dim=-1,
    )


def grid_code(side: int, size: int) -> Tensor:
    """Return the codes of the centres of a side x side grid, row by row, as (side^2, size)."""
    centre = (torch.arange(side, dtype=torch.float32) + 0.5) / side
    y, x = torch.meshgrid(centre, centre, indexing='ij')
    return point_code(torch.stack([x.flatten(), y.flatten()], dim=-1), size)

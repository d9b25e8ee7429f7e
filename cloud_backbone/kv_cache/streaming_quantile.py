# SPDX-License-Identifier: Apache-2.0
"""Quantiles of a stream in fixed memory: a merging t-digest, several streams side by side.

Dunning, Ertl, "Computing extremely accurate quantiles using t-digests", 2019
(arXiv:1902.04023). Samples are sorted together with the centroids, and each goes to the cell

    cell(q) = floor(size * (asin(2 q - 1) / pi + 1 / 2)),       q = its rank / the count

so that cells are narrow at both ends, where quantiles matter most. Changed: the cells are a fixed
grid in place of a greedy merge, which makes an update one sort and one scatter for all streams.

Knows no model and no group.
"""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import Any

from cloud_backbone.kv_cache.errors import CalibrationError
import numpy as np
import torch
from torch import Tensor

BITE = 1 << 16
"""Samples a stream that are sorted at once; bounds the memory of an update."""


class QuantileSketch:
    """Quantiles of ``rows`` streams; each keeps ``size`` centroids."""

    def __init__(self, rows: int, size: int = 1024) -> None:
        self._mean = torch.zeros(rows, size, dtype=torch.float64)
        self._weight = torch.zeros(rows, size, dtype=torch.float64)

    def update(self, samples: Tensor) -> None:
        """Take in samples (rows, n), in any order."""
        if not bool(torch.isfinite(samples).all()):
            raise CalibrationError('samples for calibration hold NaN or infinity')
        for bite in samples.split(BITE, dim=-1):
            self._merge(bite.to(self._mean))

    def _merge(self, samples: Tensor) -> None:
        mean, order = torch.cat([self._mean, samples], -1).sort(-1)
        weight = torch.cat([self._weight, torch.ones_like(samples)], -1).gather(-1, order)
        rank = (weight.cumsum(-1) - weight / 2) / weight.sum(-1, keepdim=True).clamp_min(1)
        size = self._mean.shape[-1]
        cell = (torch.asin((2 * rank - 1).clamp(-1, 1)) / math.pi + 0.5).mul(size).long()
        cell.clamp_(0, size - 1)
        empty = torch.zeros_like(self._mean)
        self._weight = empty.scatter_add(-1, cell, weight)
        total = empty.scatter_add(-1, cell, weight * mean)
        self._mean = total / self._weight.clamp_min(1)

    def quantiles(self, points: Sequence[float]) -> Tensor:
        """Return float32 (rows, points): the values below which these shares lie."""
        rows = [self._interpolate(row, points) for row in range(len(self._mean))]
        return torch.from_numpy(np.stack(rows)).float()

    def _interpolate(self, row: int, points: Sequence[float]) -> Any:
        held = self._weight[row] > 0
        if not bool(held.any()):
            raise CalibrationError('no samples were given for calibration')
        weight, mean = self._weight[row][held], self._mean[row][held]
        rank = (weight.cumsum(0) - weight / 2) / weight.sum()
        return np.interp(points, rank.numpy(), mean.numpy())

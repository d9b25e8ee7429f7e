# SPDX-License-Identifier: Apache-2.0
"""The thresholds of Oaken's groups (see ``oaken``), and how they are learned from samples.

Knows no page and no code.
"""

from __future__ import annotations

from dataclasses import dataclass

from cloud_backbone.kv_cache.errors import CalibrationError
from cloud_backbone.kv_cache.streaming_quantile import QuantileSketch
import torch
from torch import Tensor

NARROW = 2.0**-7
"""Least width of the middle group on one side, as a share of its largest threshold."""

LEAST = 2.0**-100
"""Least width of all; its inverse is finite."""


@dataclass(frozen=True)
class OakenShares:
    """Shares of the elements outside and inside; half of each on either side."""

    outer: float = 0.04
    inner: float = 0.06

    def __post_init__(self) -> None:
        if not (self.outer >= 0 and self.inner >= 0 and self.outer + self.inner < 1):
            raise ValueError(
                f'shares of {self.outer} outer and {self.inner} inner are not both at least 0 '
                'and together below 1'
            )

    @property
    def points(self) -> tuple[float, float, float, float]:
        """The quantiles that are the four thresholds."""
        outer, inner = self.outer / 2, self.inner / 2
        return outer, 0.5 - inner, 0.5 + inner, 1 - outer


class GroupEdges:
    """Thresholds of the keys or of the values of one layer, one set for each KV head.

    Each set is outer low <= inner low <= inner high <= outer high. Signs do not matter: all four
    may lie above 0. Where they coincide (constant samples), the middle group is widened a little,
    or by 1 where all are 0.
    """

    HEAD_BYTES = 32
    """Bytes that one KV head takes [B]."""

    def __init__(self, edges: Tensor) -> None:
        if edges.dim() != 2 or edges.shape[-1] != 4:
            raise CalibrationError(f'thresholds are (kv_heads, 4), not {tuple(edges.shape)}')
        self.edges = edges.float()
        if not bool(self.edges.isfinite().all() and (self.edges.diff(dim=-1) >= 0).all()):
            raise CalibrationError(f'thresholds are finite and ascend, not {edges.tolist()}')
        outer_low, low, high, outer_high = self.edges.unbind(-1)
        self.centre = low / 2 + high / 2
        """(kv_heads,)."""
        self.half = high / 2 - low / 2
        """Half the width of the inner group (kv_heads,)."""
        peak = self.edges.abs().amax(-1, keepdim=True)
        least = torch.where(peak > 0, peak * NARROW, 1.0).clamp_min(LEAST)
        width = torch.stack([low - outer_low, outer_high - high], -1)
        self.width = width.maximum(least).clamp_max(torch.finfo(torch.float32).max / 4)
        """Of the middle group on the lower and on the upper side (kv_heads, 2)."""

    @classmethod
    def from_samples(cls, samples: Tensor, shares: OakenShares | None = None) -> GroupEdges:
        """Learn from samples (kv_heads, slots, head_dim)."""
        sketch = QuantileSketch(len(samples))
        sketch.update(samples.flatten(1))
        return cls(sketch.quantiles((shares or OakenShares()).points).to(samples.device))

    def __len__(self) -> int:
        """Count the KV heads."""
        return len(self.edges)

    def to(self, device: torch.device | str) -> GroupEdges:
        return GroupEdges(self.edges.to(device))

    def nbytes(self) -> int:
        """Bytes of all tensors held [B]."""
        held = (self.edges, self.centre, self.half, self.width)
        return sum(tensor.numel() * tensor.element_size() for tensor in held)


@dataclass(frozen=True)
class OakenThresholds:
    """Thresholds of one layer."""

    key: GroupEdges
    value: GroupEdges

    @classmethod
    def from_samples(
        cls, key: Tensor, value: Tensor, shares: OakenShares | None = None
    ) -> OakenThresholds:
        """Learn from keys and values (kv_heads, slots, head_dim), say those of a first prompt."""
        return cls(GroupEdges.from_samples(key, shares), GroupEdges.from_samples(value, shares))

    def to(self, device: torch.device | str) -> OakenThresholds:
        return OakenThresholds(self.key.to(device), self.value.to(device))

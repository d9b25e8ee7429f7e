# SPDX-License-Identifier: Apache-2.0
"""Tells when the thresholds of Oaken no longer fit what the model computes.

Knows the counts of the groups only.
"""

from __future__ import annotations

from dataclasses import dataclass

from cloud_backbone.kv_cache.oaken_edges import OakenShares

LEAST = 1 << 14
"""Elements below which shares say nothing."""


@dataclass
class GroupCounts:
    """Elements that were encoded, by group."""

    elements: int = 0
    outer: int = 0
    """Beyond the outer thresholds, whether there was room or not."""
    inner: int = 0
    kept: int = 0
    """Outer and inner elements that found room in their page."""

    @property
    def spilled(self) -> int:
        """Outer and inner elements that had to go to the middle group."""
        return self.outer + self.inner - self.kept

    @property
    def outer_share(self) -> float:
        return self.outer / max(self.elements, 1)

    @property
    def inner_share(self) -> float:
        return self.inner / max(self.elements, 1)

    @property
    def spilled_share(self) -> float:
        return self.spilled / max(self.elements, 1)

    def drift(self, calibrated: OakenShares) -> float:
        """Return how far a share is off what it was calibrated to, the larger of the two."""
        outer = abs(self.outer_share - calibrated.outer)
        return max(outer, abs(self.inner_share - calibrated.inner))

    def stale(self, calibrated: OakenShares, tolerance: float = 0.03) -> bool:
        """Whether it is time to calibrate anew."""
        return self.elements >= LEAST and self.drift(calibrated) > tolerance

# SPDX-License-Identifier: Apache-2.0
"""Free spots on the table: far enough apart for the open gripper to reach between things.

Knows squares (bins) and discs (objects) on a plane; nothing about colours, heights or MuJoCo.
"""

from __future__ import annotations

from dataclasses import dataclass, field
import math

from numpy.random import Generator
from sim.errors import SimError

X_RANGE_M = (0.34, 0.60)
Y_RANGE_M = (-0.24, 0.24)
BIN_Y_RANGE_M = (-0.22, 0.22)
BIN_HALF_M = 0.06
BIN_TO_BIN_M = 0.155
BIN_TO_OBJECT_M = 0.066
OBJECT_TO_OBJECT_M = 0.088
ATTEMPTS = 60

Spot = tuple[float, float, float]


class TableFullError(SimError):
    """No free spot was found in ATTEMPTS draws."""


@dataclass
class Placement:
    """Spots taken so far, each (x [m], y [m], yaw [rad]) in the robot base frame."""

    bins: list[Spot] = field(default_factory=list)
    objects: list[Spot] = field(default_factory=list)

    def add_bin(self, rng: Generator) -> Spot:
        """Take a spot for a bin, turned by at most 0.3 rad."""
        for _ in range(ATTEMPTS):
            x, y = rng.uniform(*X_RANGE_M), rng.uniform(*BIN_Y_RANGE_M)
            if all(max(map(abs, _local(b, x, y))) > BIN_TO_BIN_M for b in self.bins):
                self.bins.append((x, y, float(rng.uniform(-0.3, 0.3))))
                return self.bins[-1]
        raise TableFullError

    def add_object(self, rng: Generator) -> Spot:
        """Take a spot for an object, turned by any angle up to 45 degrees."""
        for _ in range(ATTEMPTS):
            spot = (
                float(rng.uniform(*X_RANGE_M)),
                float(rng.uniform(*Y_RANGE_M)),
                float(rng.uniform(-math.pi / 4, math.pi / 4)),
            )
            if self.is_free(spot):
                self.objects.append(spot)
                return spot
        raise TableFullError

    def add_beside(self, rng: Generator, index: int) -> Spot:
        """Take a spot against a wall of bin `index`, as after a push."""
        bin_x, bin_y, bin_yaw = self.bins[index]
        for _ in range(ATTEMPTS):
            out = rng.uniform(0.083, 0.089)
            along = rng.uniform(-0.02, 0.02)
            angle = bin_yaw + rng.integers(4) * math.pi / 2
            x = bin_x + out * math.cos(angle) - along * math.sin(angle)
            y = bin_y + out * math.sin(angle) + along * math.cos(angle)
            spot = (float(x), float(y), float(bin_yaw + rng.normal(0, 0.03)))
            if _inside_area(spot) and self.is_free(spot, beside=index):
                self.objects.append(spot)
                return spot
        raise TableFullError

    def is_free(self, spot: Spot, beside: int = -1) -> bool:
        """Say whether an object fits here; the bin `beside` may touch it."""
        x, y, _ = spot
        bins = [b for i, b in enumerate(self.bins) if i != beside]
        clear = all(_distance_to_bin(b, x, y) > BIN_TO_OBJECT_M for b in bins)
        return clear and all(
            math.hypot(x - o[0], y - o[1]) > OBJECT_TO_OBJECT_M for o in self.objects
        )


def _inside_area(spot: Spot) -> bool:
    x, y, _ = spot
    return X_RANGE_M[0] <= x <= X_RANGE_M[1] and Y_RANGE_M[0] <= y <= Y_RANGE_M[1]


def _local(frame: Spot, x: float, y: float) -> tuple[float, float]:
    """Give a point in the frame of a bin [m]."""
    dx, dy = x - frame[0], y - frame[1]
    cos, sin = math.cos(frame[2]), math.sin(frame[2])
    return cos * dx + sin * dy, cos * dy - sin * dx


def _distance_to_bin(frame: Spot, x: float, y: float) -> float:
    """Distance from a point to the outer wall of a bin [m], 0 inside."""
    u, v = _local(frame, x, y)
    return math.hypot(max(abs(u) - BIN_HALF_M, 0.0), max(abs(v) - BIN_HALF_M, 0.0))

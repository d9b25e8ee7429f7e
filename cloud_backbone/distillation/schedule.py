# SPDX-License-Identifier: Apache-2.0
"""Learning rate over a training: a short rise, then a cosine down to a twentieth."""

from __future__ import annotations

import math

from torch.optim import Optimizer

FLOOR = 0.05


def rate_factor(step: int, steps: int, rise: int) -> float:
    """Return the share of the peak rate at `step` of `steps`."""
    share = min(1.0, step / max(1, steps))
    cosine = 0.5 * (1.0 + math.cos(math.pi * share))
    return min(1.0, (step + 1) / max(1, rise)) * (FLOOR + (1.0 - FLOOR) * cosine)


def set_rate(optimizer: Optimizer, rate: float, factor: float) -> None:
    """Set each group's rate; a group's `gain` scales it."""
    for group in optimizer.param_groups:
        group['lr'] = rate * group.get('gain', 1.0) * factor

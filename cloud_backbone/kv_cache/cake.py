# SPDX-License-Identifier: Apache-2.0
"""CAKE: keep what the last rows look at steadily or by turns; give layers what they need.

Qin et al., CAKE: Cascading and Adaptive KV Cache Eviction with Layer Preferences, ICLR 2025,
arXiv:2503.12491. With A the attention of the last W rows of the prompt, P its columns before the
window, not renormalised:

    score[k, j]  = mean over h of group k of pool_j(mean_w A[h, w, j] + gamma var_w A[h, w, j])
    H            = - sum over h, w, j of P log P              dispersion in space
    V            = sum over h, j of var_w P[h, w, j]          shift in time
    preference   = H^(1/tau1) V^(1/tau2)

The budgets that follow from the preferences are the budgeter's.

Changed, and why:
  * Mean and variance are stored apart, pooled, in bfloat16: the public code's half precision
    flushes small variances to zero, which bfloat16 does not. All arithmetic is single precision.
  * While decoding, the public code evicts by the current row alone. Here mean and variance go on
    as exponential averages of time constant W, a = 1/W: d = x - mean; mean += a d;
    var = (1 - a)(var + a d^2). A later window of n rows enters with the weight of n such steps,
    its own variance added. With gamma 0 this is SnapKV to the bit.
  * A slot's statistics count only the rows that see it, and its window is as long as there are
    rows: prompts shorter than W work, one row has no variance.
  * The preference is computed by logarithms and is always positive and finite. It is that of one
    session: a batch must not mix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import math
from types import MappingProxyType
from typing import ClassVar

from cloud_backbone.kv_cache.scorer import Columns, Reads
from cloud_backbone.kv_cache.snapkv import (
    check_window,
    pooled,
    rows_seeing,
    weight_of_rows,
    window_mean,
)
import torch
from torch import Tensor

LARGEST_LOGARITHM = 300.0
"""Preferences stay between exp(-300) and exp(300), so that their sums and ratios are finite."""


@dataclass(frozen=True)
class Taus:
    """How much dispersion and shift count in a preference; the larger, the less."""

    tau1: float = 1.0
    """Of the dispersion in space."""
    tau2: float = 1.0
    """Of the shift in time."""

    def __post_init__(self) -> None:
        if not (0 < self.tau1 < math.inf and 0 < self.tau2 < math.inf):
            raise ValueError(f'taus {self.tau1} and {self.tau2}; both must be positive and finite')


PLAIN = Taus()
PAPER_TAUS: Mapping[tuple[str, int], Taus] = MappingProxyType({
    ('llama-3.1-8b', 1024): Taus(1.6, 0.4),
    ('llama-3.1-8b', 128): Taus(1.6, 0.6),
    ('mistral-7b-v0.3', 1024): Taus(0.8, 0.5),
    ('mistral-7b-v0.3', 128): Taus(1.0, 0.8),
    ('qwen2.5-7b', 1024): Taus(1.5, 0.6),
    ('qwen2.5-7b', 128): Taus(0.4, 0.6),
    ('llama-2-7b', 1024): Taus(1.9, 1.8),
    ('llama-2-7b', 128): Taus(0.9, 2.3),
    ('llama-2-13b', 1024): Taus(0.5, 0.4),
    ('llama-2-13b', 128): Taus(1.8, 2.0),
})
"""What the public code sets, by model and slots per layer; 1 and 1 for all other models."""


@dataclass(frozen=True)
class Cake:
    """Mean and variance of the last rows' attention, pooled over neighbours."""

    reads: ClassVar[Reads] = 'window'
    per_head: ClassVar[bool] = True
    columns: ClassVar[Mapping[str, torch.dtype]] = MappingProxyType(
        {'mean': torch.bfloat16, 'variance': torch.bfloat16}
    )
    window: int = 32
    kernel: int = 5
    gamma: float = 200.0

    def __post_init__(self) -> None:
        check_window(self.window, self.kernel)
        if not 0 <= self.gamma < math.inf:
            raise ValueError(f'gamma {self.gamma}; it must be 0 or more, and finite')

    def observe(
        self, columns: Columns, attention: Tensor, positions: Tensor, queries: Tensor
    ) -> Columns:
        mean, variance = columns['mean'].float(), columns['variance'].float()
        weight = weight_of_rows(mean, positions, queries, self.window)
        step = window_mean(attention, positions, queries, self.kernel) - mean
        spread = window_variance(attention, positions, queries, self.kernel)
        mixed = (1 - weight) * (variance + weight * step.square()) + weight * spread
        return {
            'mean': (mean + weight * step).to(torch.bfloat16),
            'variance': mixed.to(torch.bfloat16),
        }

    def scores(self, columns: Columns, positions: Tensor) -> Tensor:
        return columns['mean'].float() + self.gamma * columns['variance'].float()


def window_variance(attention: Tensor, positions: Tensor, queries: Tensor, kernel: int) -> Tensor:
    """Return each slot's unbiased variance over its rows, group mean (kv_heads, slots or 1)."""
    if len(queries) == 1:
        return attention.new_zeros(attention.shape[0], 1)
    seen = rows_seeing(positions, queries)[:, None, None]
    mean = attention.sum(2, keepdim=True) / seen.clamp(min=1)
    visible = positions[:, None, None] <= queries[:, None]
    squares = ((attention - mean) * visible).square().sum(2)
    variance = (squares / (seen[:, :, 0] - 1).clamp(min=1)).mean(1)
    return pooled(variance, positions, queries, kernel)


def preference(attention: Tensor, fresh_from: int, taus: Taus = PLAIN) -> float:
    """Return how much a layer wants, positive and finite.

    Args:
        attention: of the window's rows (kv_heads, group, rows, slots).
        fresh_from: the first slot of the window itself; those before it count.
        taus: the weights of its two factors.
    """
    before = attention[..., :fresh_from].float()
    dispersion = -torch.xlogy(before, before).sum()
    squares = (before - before.mean(2, keepdim=True)).square().sum()
    shift = squares / max(before.shape[2] - 1, 1)
    return math.exp(_bounded(_log(dispersion) / taus.tau1 + _log(shift) / taus.tau2))


def _log(value: Tensor) -> float:
    """Return log(value), bounded; of zero and of what is no number, the lower bound."""
    number = float(value)
    return _bounded(math.log(number)) if number > 0 else -LARGEST_LOGARITHM


def _bounded(logarithm: float) -> float:
    return min(max(logarithm, -LARGEST_LOGARITHM), LARGEST_LOGARITHM)

# SPDX-License-Identifier: Apache-2.0
"""SnapKV: keep what the last rows of the prompt look at.

Li et al., SnapKV: LLM Knows What You are Looking for Before Generation, NeurIPS 2024,
arXiv:2404.14469. With A the attention of the last W rows of the prompt:

    score[k, j] = mean over heads h of group k of pool_j(mean over rows w of A[h, w, j])

Changed, and why:
  * The group of a KV head is averaged, so keys are never repeated per query head.
  * Average pooling of 5 as in the method's code, over neighbours in position, whatever slots they
    lie in; slots of the window itself are neither pooled nor pooled with: they always stay at
    first, and their weight says nothing of what lies before them.
  * A slot's mean counts only the rows that see it, so the window's own slots, which can be dropped
    while decoding, are not punished for the rows before them.
  * The paper scores once. Here each further row enters an exponential mean of time constant W,
    mean += (x - mean) / W, and a window of n rows enters with the weight of n such steps. A slot
    that no window has seen takes the new window's mean as it is.
  * The mean is stored in bfloat16: a step of 1/32 cannot move it once it is within about a tenth
    of its goal, but nothing flushes to zero and it always decays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from cloud_backbone.kv_cache.scorer import Columns, Reads
import torch
from torch import Tensor
from torch.nn import functional as F


def check_window(window: int, kernel: int) -> None:
    """Refuse windows without rows and kernels without a middle."""
    if window < 1:
        raise ValueError(f'a window of {window} rows; at least 1 is needed')
    if kernel < 1 or kernel % 2 == 0:
        raise ValueError(f'a pooling kernel of {kernel}; an odd number from 1 on is needed')


def rows_seeing(positions: Tensor, queries: Tensor) -> Tensor:
    """Return how many rows see each slot, for positions (kv_heads, slots), queries (rows,)."""
    seen = (positions[:, None] >= 0) & (positions[:, None] <= queries[None, :, None])
    return seen.sum(1)


def pooled(values: Tensor, positions: Tensor, queries: Tensor, kernel: int) -> Tensor:
    """Average values (kv_heads, slots) over neighbours in position, before the window only."""
    before = positions < queries.min()
    order = positions.argsort(1)
    sorted_ = values.masked_fill(~before, 0).gather(1, order)
    smooth = F.avg_pool1d(sorted_, kernel, stride=1, padding=kernel // 2)
    return torch.where(before, torch.empty_like(values).scatter(1, order, smooth), values)


def window_mean(attention: Tensor, positions: Tensor, queries: Tensor, kernel: int) -> Tensor:
    """Return each slot's mean over its rows and the group (kv_heads, slots); one row is as is."""
    if len(queries) == 1:
        return attention[:, :, 0].mean(1)
    mean = attention.sum(2).mean(1) / rows_seeing(positions, queries).clamp(min=1)
    return pooled(mean, positions, queries, kernel)


def weight_of_rows(
    mean: Tensor, positions: Tensor, queries: Tensor, window: int
) -> Tensor | float:
    """Return how much of the old mean (kv_heads, slots) the rows replace: 0 none, 1 all."""
    if len(queries) == 1:
        return 1 / window
    seen = rows_seeing(positions, queries)
    weight = 1 - torch.pow(1 - 1 / window, seen.float())
    return torch.where((mean == 0) & (seen > 0), torch.ones_like(weight), weight)


@dataclass(frozen=True)
class SnapKV:
    """Mean attention of the last rows, pooled over neighbours."""

    reads: ClassVar[Reads] = 'window'
    per_head: ClassVar[bool] = True
    columns: ClassVar[Mapping[str, torch.dtype]] = MappingProxyType({'mean': torch.bfloat16})
    window: int = 32
    kernel: int = 5

    def __post_init__(self) -> None:
        check_window(self.window, self.kernel)

    def observe(
        self, columns: Columns, attention: Tensor, positions: Tensor, queries: Tensor
    ) -> Columns:
        mean = columns['mean'].float()
        weight = weight_of_rows(mean, positions, queries, self.window)
        new = window_mean(attention, positions, queries, self.kernel)
        return {'mean': (mean + weight * (new - mean)).to(torch.bfloat16)}

    def scores(self, columns: Columns, positions: Tensor) -> Tensor:
        return columns['mean'].float()

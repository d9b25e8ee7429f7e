# SPDX-License-Identifier: Apache-2.0
"""VEDA: each row votes against the tokens that it hardly looks at.

Wang et al., VEDA: Efficient LLM Generation Through Voting-based KV Cache Eviction and
Dataflow-flexible Accelerator, DAC 2025, arXiv:2507.00797. Row i, at position R or later, sees l
slots with attention p (sum 1, so its mean is 1/l):

    T = a / l - b std(p),  std^2 = sum(p^2) / l - 1 / l^2,  a = 1, b = 0.2
    T >= 0: each slot with p < T gets a vote;  T < 0: the slot of the smallest p alone does
    the slot with the most votes is dropped, of equals the earliest

The first R = 32 rows do not vote. The text leaves open what is an argument here:
  * vote: 'mean_head' averages the heads before they vote, 'sum_heads' counts every head's votes.
  * protect: whether the first R positions are kept whatever the votes; by default they are.
  * reads: 'rows' lets the whole prompt vote, 'window' only its last rows.

Changed, and why:
  * T is negative as soon as sum(p^2) > 26 / l: one sink of weight 0.3 silences all thresholds
    from 289 slots on. stats='exclude_reserved' takes mean and deviation over the slots behind
    the first R, renormalised, and lets only those be voted against; 'paper' is the text.
  * Votes are 16 bit and stop at the largest number instead of wrapping to the smallest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import math
from types import MappingProxyType
from typing import ClassVar, Literal

from cloud_backbone.kv_cache.scorer import Columns, Reads
import torch
from torch import Tensor

MOST_VOTES = torch.iinfo(torch.int16).max
CHOICES = {
    'vote': ('mean_head', 'sum_heads'),
    'stats': ('exclude_reserved', 'paper'),
    'reads': ('rows', 'window'),
}


@dataclass(frozen=True)
class Veda:
    """Votes against slots, shared by all heads."""

    per_head: ClassVar[bool] = False
    columns: ClassVar[Mapping[str, torch.dtype]] = MappingProxyType({'votes': torch.int16})
    vote: Literal['mean_head', 'sum_heads'] = 'mean_head'
    stats: Literal['exclude_reserved', 'paper'] = 'exclude_reserved'
    reads: Reads = 'rows'
    window: int = 32
    reserved: int = 32
    """R: rows that do not vote."""
    protect: bool = True
    """Whether the reserved positions are kept whatever the votes."""
    a: float = 1.0
    b: float = 0.2

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(f'{name} {getattr(self, name)!r}; known are {", ".join(known)}')
        if self.window < 1 or self.reserved < 0:
            raise ValueError(
                f'window {self.window} and reserved {self.reserved}; at least 1 and 0 are needed'
            )
        if not (math.isfinite(self.a) and math.isfinite(self.b)):
            raise ValueError(f'a {self.a} and b {self.b}; both must be finite')

    def observe(
        self, columns: Columns, attention: Tensor, positions: Tensor, queries: Tensor
    ) -> Columns:
        voters = queries >= self.reserved
        rows = attention.flatten(0, 1)[:, voters]
        if self.vote == 'mean_head':
            rows = rows.mean(0, keepdim=True)
        position = positions[0]
        first = self.reserved if self.stats == 'exclude_reserved' else 0
        eligible = (position >= first) & (position <= queries[voters, None])
        ballots = self._ballots(rows, eligible, position).sum((0, 1))
        votes = (columns['votes'].int() + ballots).clamp(max=MOST_VOTES)
        return {'votes': votes.to(torch.int16)}

    def scores(self, columns: Columns, positions: Tensor) -> Tensor:
        scores = -columns['votes'].float()
        if not self.protect:
            return scores
        shared = positions[:1]
        return scores.masked_fill((shared >= 0) & (shared < self.reserved), torch.inf)

    def _ballots(self, rows: Tensor, eligible: Tensor, position: Tensor) -> Tensor:
        """Return who votes against whom (heads, rows, slots).

        Args:
            rows: attention (heads, rows, slots).
            eligible: which slots count in each row (rows, slots).
            position: of each slot (slots,).
        """
        seen = rows.masked_fill(~eligible, 0)
        threshold = self._threshold(seen, eligible.sum(-1, keepdim=True))
        below = (seen < threshold) & eligible
        negative = threshold < 0
        if not negative.any():
            return below
        lowest = rows.masked_fill(~eligible, torch.inf).amin(-1, keepdim=True)
        ties = (rows == lowest) & eligible
        latest = torch.iinfo(position.dtype).max
        earliest = torch.where(ties, position, latest).amin(-1, keepdim=True)
        return torch.where(negative, ties & (position == earliest), below)

    def _threshold(self, seen: Tensor, count: Tensor) -> Tensor:
        """Return T (heads, rows, 1) in units of the attention.

        Args:
            seen: attention, zero where it does not count (heads, rows, slots).
            count: how many slots count (rows, 1).
        """
        mass = torch.ones_like(seen[..., :1]) if self.stats == 'paper' else seen.sum(-1, True)
        mean = mass / count.clamp(min=1)
        variance = seen.square().sum(-1, keepdim=True) / count.clamp(min=1) - mean.square()
        return self.a * mean - self.b * variance.clamp(min=0).sqrt()

# SPDX-License-Identifier: Apache-2.0
"""Replay: keep what is needed to tell the context once more.

Kim et al., KVzip: Query-Agnostic KV Cache Compression with Context Reconstruction, NeurIPS 2025,
arXiv:2505.23416. With A the attention of all rows that read the context again (``rehearsal``):

    score[k, j] = max over heads h of group k, and over rows i, of A[h, i, j]

Changed, and why:
  * The softmax is over all that the row holds, dead slots aside, not over the context and one
    chunk: the weights are then those that attention uses.
  * The paper scores once. Here each further row counts, while decoding too, but for slots that
    are less than ``near`` tokens behind it: those stay anyway, and what neighbours look at says
    little of later.
  * Without a rehearsal the rows of the prompt itself count.
  * The greatest weight is kept in bfloat16, which flushes nothing to zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from cloud_backbone.kv_cache.scorer import Columns, Reads
import torch
from torch import Tensor


@dataclass(frozen=True)
class Replay:
    """Greatest attention of any row that comes later."""

    reads: ClassVar[Reads] = 'rows'
    per_head: ClassVar[bool] = True
    columns: ClassVar[Mapping[str, torch.dtype]] = MappingProxyType({'most': torch.bfloat16})
    window: ClassVar[int] = 32
    near: int = 8

    def observe(
        self, columns: Columns, attention: Tensor, positions: Tensor, queries: Tensor
    ) -> Columns:
        far = queries[None, :, None] - positions[:, None] >= self.near
        most = attention.amax(1).masked_fill_(~far, 0).amax(1)
        return {'most': torch.maximum(columns['most'], most.to(torch.bfloat16))}

    def scores(self, columns: Columns, positions: Tensor) -> Tensor:
        return columns['most'].float()

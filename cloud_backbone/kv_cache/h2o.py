# SPDX-License-Identifier: Apache-2.0
"""H2O: keep the heavy hitters, the tokens that have received the most attention so far.

Zhang et al., H2O: Heavy-Hitter Oracle for Efficient Generative Inference of Large Language
Models, NeurIPS 2023, arXiv:2306.14048. With A the attention of all rows, of prompt and answer:

    score[k, j] = mean over heads h of group k of sum over rows i of A[h, i, j]

Changed, and why:
  * The group of a KV head is averaged, so keys are never repeated per query head.
  * The recent half of the paper's budget is not scored: the caller protects recent tokens.
  * The sum is kept in single precision. A token of weight 1/l in each row l has gathered ln(l)
    after l rows; a sum in half precision stops growing by such steps at 513 rows, in bfloat16 at
    65, single precision at two million; from then on tokens are ranked by their past alone.
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
class H2O:
    """Attention gathered over all rows."""

    reads: ClassVar[Reads] = 'rows'
    per_head: ClassVar[bool] = True
    columns: ClassVar[Mapping[str, torch.dtype]] = MappingProxyType({'mass': torch.float32})
    window: ClassVar[int] = 32

    def observe(
        self, columns: Columns, attention: Tensor, positions: Tensor, queries: Tensor
    ) -> Columns:
        return {'mass': columns['mass'] + attention.sum(2).mean(1)}

    def scores(self, columns: Columns, positions: Tensor) -> Tensor:
        return columns['mass']

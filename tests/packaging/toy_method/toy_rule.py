# SPDX-License-Identifier: Apache-2.0
"""A scorer made up for the test of CONTRIBUTING.md: the last row's attention counts, no other.

    score[k, j] = mean over heads h of group k of A[h, last row, j]

Knows no other row.
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
class ToyRule:
    """Attention of the last row."""

    reads: ClassVar[Reads] = 'window'
    per_head: ClassVar[bool] = True
    columns: ClassVar[Mapping[str, torch.dtype]] = MappingProxyType({'last': torch.float32})
    window: int = 8

    def observe(
        self, columns: Columns, attention: Tensor, positions: Tensor, queries: Tensor
    ) -> Columns:
        return {'last': attention[:, :, -1].mean(1)}

    def scores(self, columns: Columns, positions: Tensor) -> Tensor:
        return columns['last']

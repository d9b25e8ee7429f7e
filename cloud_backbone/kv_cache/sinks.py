# SPDX-License-Identifier: Apache-2.0
"""StreamingLLM: keep the first few tokens and the most recent ones.

Xiao et al., Efficient Streaming Language Models with Attention Sinks, ICLR 2024,
arXiv:2309.17453. With s sinks:

    score[j] = infinity for position j < s, else the position

Changed, and why: the paper numbers positions anew inside the cache, so that a stream can outlast
the model's context. Here keys keep the positions they were rotated with, as under every other
rule, and a session ends with the context.
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
class Sinks:
    """Position alone counts; reads no attention and remembers nothing."""

    reads: ClassVar[Reads] = 'nothing'
    per_head: ClassVar[bool] = False
    columns: ClassVar[Mapping[str, torch.dtype]] = MappingProxyType({})
    window: ClassVar[int] = 32
    sinks: int = 4

    def __post_init__(self) -> None:
        if self.sinks < 0:
            raise ValueError(f'{self.sinks} sinks; 0 or more are needed')

    def observe(
        self, columns: Columns, attention: Tensor, positions: Tensor, queries: Tensor
    ) -> Columns:
        return columns

    def scores(self, columns: Columns, positions: Tensor) -> Tensor:
        shared = positions[:1]
        sink = (shared >= 0) & (shared < self.sinks)
        # Single precision counts exactly up to 16.7 million positions.
        return shared.float().masked_fill(sink, torch.inf)

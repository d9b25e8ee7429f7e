# SPDX-License-Identifier: Apache-2.0
"""What a row of the cache asks of a rule that says which tokens matter.

Knows the interface; one file per paper stands beside it. A scorer holds no state: what it
remembers of a slot stands in columns, which the row keeps and moves together with the slots.
Knows no budget: how many slots stay, and which are protected, others decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

import torch
from torch import Tensor

Reads = Literal['nothing', 'window', 'rows']
"""The query rows of a prefill that a scorer must see: none, the last ones, or all."""

Columns = dict[str, Tensor]
"""State by name, one value per slot: (kv_heads, slots), or (1, slots) where heads share it."""


class Scorer(Protocol):
    """A rule that ranks the slots of one row. Shared by all rows of a policy."""

    @property
    def reads(self) -> Reads:
        """Rows of a prefill to observe. While decoding each row is shown, but to 'nothing'."""

    @property
    def window(self) -> int:
        """How many of the last rows a scorer that reads 'window' wants."""

    @property
    def per_head(self) -> bool:
        """Whether each KV head has its own columns (kv_heads, slots), or all share (1, slots)."""

    @property
    def columns(self) -> Mapping[str, torch.dtype]:
        """Names and types of the state; a new slot starts at zero in each."""

    def observe(
        self, columns: Columns, attention: Tensor, positions: Tensor, queries: Tensor
    ) -> Columns:
        """Return the columns after some query rows, without changing those given.

        Called once per block of rows by a prefill that reads 'rows', once with the window's rows
        by one that reads 'window', and once per decoding step, mostly with one row. Several rows
        shown to a scorer that reads 'window' are a new window: a further turn.

        Args:
            columns: the state so far.
            attention: softmax rows over all living slots, single precision
                (kv_heads, group, rows, slots); zero where a slot is invisible.
            positions: position of the token in each slot, -1 in a dead one (kv_heads, slots).
            queries: position of each row (rows,). Slot j is visible to row i if its position is
                at least 0 and at most that of the row.
        """

    def scores(self, columns: Columns, positions: Tensor) -> Tensor:
        """Return how much each slot matters, single precision (kv_heads or 1, slots).

        The higher stays; of equals the later position. Dead slots get any value.

        Args:
            columns: the state.
            positions: position of the token in each slot (kv_heads or 1, slots).
        """

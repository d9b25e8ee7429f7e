# SPDX-License-Identifier: Apache-2.0
"""What a scorer keeps for each slot: names, types, and whether KV heads have their own.

The tensors stand beside the positions of a shelf and move with its slots.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Columns:
    """Layout of the state of one scorer."""

    heads: int = 1
    """Rows of each tensor: the KV heads, or 1 if they share."""
    types: dict[str, torch.dtype] = field(default_factory=dict)

    def rows(self, slots: int) -> dict[str, Tensor]:
        """Return zeros for new slots, name -> (heads, slots)."""
        return {name: torch.zeros(self.heads, slots, dtype=kind)
                for name, kind in self.types.items()}

    @property
    def slot_bytes(self) -> int:
        """Bytes of one slot of all heads [B]."""
        return self.heads * sum(kind.itemsize for kind in self.types.values())

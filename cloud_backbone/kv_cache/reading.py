# SPDX-License-Identifier: Apache-2.0
"""Queries against all stored slots of one row, and the mix of their values.

Pages are decoded chunk by chunk (``kernel``), never as a whole. Knows nothing of new tokens that
are not stored yet.
"""

from __future__ import annotations

from collections.abc import Sequence

from cloud_backbone.kv_cache.kernel import key_scores, value_mix
from cloud_backbone.kv_cache.kv_row import KVRow
from cloud_backbone.kv_cache.shelf import Shelf
import torch
from torch import Tensor
from torch.nn import functional as F


class Reading:
    """The stored slots of a row, shelf after shelf."""

    def __init__(self, row: KVRow) -> None:
        self._row = row
        self.shelves = row.shelves
        self.slots = sum(shelf.used for shelf in self.shelves)
        self._has_dead = any(shelf.has_dead for shelf in self.shelves)

    def positions(self) -> list[Tensor]:
        """Return the positions (kv_heads, slots) of each shelf."""
        return [shelf.positions[:, : shelf.used] for shelf in self.shelves]

    def column(self, name: str) -> list[Tensor]:
        """Return a scorer's column (kv_heads or 1, slots) of each shelf."""
        return [shelf.columns[name][:, : shelf.used] for shelf in self.shelves]

    def scores(self, query: Tensor) -> Tensor:
        """Return unscaled logits (kv_heads, rows, slots) of queries (kv_heads, rows, width)."""
        row = self._row
        scores = joined([
            key_scores(shelf.codec, shelf.key_arena, _pages(shelf, shelf.key_pages), query)
            [..., : shelf.used] for shelf in self.shelves
        ], 2)
        if row.bias is not None:
            scores = scores + row.bias.scores(query, joined(self.positions(), 1), row.rope)
        return scores

    def hide_dead(self, logits: Tensor) -> None:
        """Let nobody look at dead slots: logits (kv_heads, rows, slots) are changed."""
        if self._has_dead:
            logits.masked_fill_((joined(self.positions(), 1) < 0)[:, None], -torch.inf)

    def mix(self, weights: Tensor) -> Tensor:
        """Return the values float32 (kv_heads, rows, d) by weight (kv_heads, rows, slots)."""
        parts, start = [], 0
        for shelf in self.shelves:
            pages = _pages(shelf, shelf.value_pages)
            part = weights[..., start : start + shelf.used]
            slots = pages.shape[1] * shelf.codec.slots
            if slots > shelf.used:
                part = F.pad(part, (0, slots - shelf.used))
            parts.append(value_mix(shelf.codec, shelf.value_arena, pages, part))
            start += shelf.used
        return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)

    def put_columns(self, columns: dict[str, Tensor]) -> dict[str, Tensor]:
        """Write the state of stored slots back; return that of the slots behind them."""
        start = 0
        for shelf in self.shelves:
            end = start + shelf.used
            for name, column in columns.items():
                shelf.columns[name][:, : shelf.used] = column[:, start:end]
            start = end
        return {name: column[:, start:] for name, column in columns.items()}


def joined(parts: Sequence[Tensor], dim: int) -> Tensor:
    """Concatenate; one part alone is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim)


def _pages(shelf: Shelf, pages: Tensor) -> Tensor:
    blocks = -(-shelf.used // shelf.codec.slots)
    return pages if blocks == pages.shape[1] else pages[:, :blocks]

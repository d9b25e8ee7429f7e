# SPDX-License-Identifier: Apache-2.0
"""Attention of new tokens over one row: pages are decoded chunk by chunk, never as a whole.

Scores what the scorer asks to see in the same pass as the softmax. Knows one row and the new
tokens; changes neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cloud_backbone.kv_cache.kernel import key_scores, value_mix
from cloud_backbone.kv_cache.kv_row import KVRow
from cloud_backbone.kv_cache.shelf import Shelf
import torch
from torch import Tensor
from torch.nn import functional as F

ROWS = 128
"""Query rows of one block: logits are (heads, ROWS, slots)."""


@dataclass(frozen=True)
class Fresh:
    """New tokens of one sequence."""

    query: Tensor
    """(heads, tokens, head_dim)."""
    key: Tensor
    """(kv_heads, tokens, head_dim)."""
    value: Tensor
    """As ``key``."""
    allowed: Tensor | None
    """Whom of the new tokens each of them sees (tokens, tokens); None: those before it."""
    scaling: float
    softcap: float | None = None
    spots: Tensor | None = None
    """Rotary positions (axes, tokens), where keys are stored without their bias."""


@dataclass
class Seen:
    """What attention shows a scorer."""

    columns: dict[str, Tensor] = field(default_factory=dict)
    """State after these tokens, old slots first, then the new tokens."""
    window: Tensor | None = None
    """Attention of the last rows (kv_heads, group, rows, slots), where it was asked for."""


class Attention:
    """Attention of some new tokens over a row and over each other."""

    def __init__(self, row: KVRow, fresh: Fresh) -> None:
        self._row, self._fresh = row, fresh
        self._shelves = row.shelves
        self._old = sum(shelf.used for shelf in self._shelves)
        self._group = fresh.query.shape[0] // row.kv_heads
        self._alive = self._find_alive()

    def run(self) -> tuple[Tensor, Seen]:
        """Return the output (heads, tokens, head_dim) and what the scorer saw."""
        fresh, scorer = self._fresh, self._row.policy.scorer
        tokens = fresh.query.shape[1]
        reads = 'nothing' if scorer is None else scorer.reads
        seen = Seen(self._columns(tokens))
        window = min(scorer.window, tokens) if scorer is not None and reads == 'window' else 0
        if not self._old and reads != 'rows' and tokens > 1 and fresh.softcap is None:
            output = self._alone()
            if window:
                seen.window = self._weights(tokens - window, tokens)
        else:
            output = self._by_blocks(reads, window, seen)
        if seen.window is not None:
            self._observe(seen, seen.window, tokens - window)
        return output, seen

    def _by_blocks(self, reads: str, window: int, seen: Seen) -> Tensor:
        tokens = self._fresh.query.shape[1]
        outputs, windows = [], []
        for first in range(0, tokens, ROWS):
            last = min(first + ROWS, tokens)
            weights = self._weights(first, last)
            outputs.append(self._mix(weights))
            if reads == 'rows':
                self._observe(seen, weights, first)
            elif window and last > tokens - window:
                windows.append(weights[:, :, max(tokens - window - first, 0) :])
        if windows:
            seen.window = torch.cat(windows, 2)
        return torch.cat(outputs, 1)

    def _alone(self) -> Tensor:
        """Attend to the new tokens only, by torch's own kernel."""
        fresh = self._fresh
        output = F.scaled_dot_product_attention(
            fresh.query[None], fresh.key[None], fresh.value[None],
            None if fresh.allowed is None else fresh.allowed[None, None],
            is_causal=fresh.allowed is None, scale=fresh.scaling, enable_gqa=self._group > 1,
        )
        return output[0]

    def _weights(self, first: int, last: int) -> Tensor:
        """Return the softmax of rows [first, last) (kv_heads, group, rows, slots), float32."""
        fresh, heads = self._fresh, self._row.kv_heads
        query = fresh.query[:, first:last].float().reshape(heads, -1, self._row.head_dim)
        parts = [
            key_scores(shelf.codec, shelf.key_arena, _pages(shelf, shelf.key_pages), query)
            [..., : shelf.used] for shelf in self._shelves
        ]
        parts.append(query @ fresh.key.float().transpose(1, 2))
        logits = torch.cat(parts, 2) if len(parts) > 1 else parts[0]
        if self._row.bias is not None and self._old:
            logits[..., : self._old] += self._of_bias(query)
        logits = logits.mul_(fresh.scaling).view(heads, self._group, last - first, -1)
        if fresh.softcap is not None:
            logits = torch.tanh(logits / fresh.softcap) * fresh.softcap
        if self._alive is not None:
            logits[..., : self._old].masked_fill_(~self._alive[:, None, None], -torch.inf)
        if last - first > 1 or fresh.allowed is not None or last < fresh.query.shape[1]:
            logits[..., self._old :].masked_fill_(~self._allowed(first, last), -torch.inf)
        return logits.softmax(-1)

    def _of_bias(self, query: Tensor) -> Tensor:
        """Return what the key bias gives to the logits of old slots."""
        row = self._row
        assert row.bias is not None
        places = [shelf.positions[:, : shelf.used] for shelf in self._shelves]
        return row.bias.scores(query, torch.cat(places, 1), row.rope)

    def _mix(self, weights: Tensor) -> Tensor:
        """Return the output of some rows (heads, rows, head_dim)."""
        heads, group, rows, _ = weights.shape
        flat = weights.reshape(heads, group * rows, -1)
        output = flat[..., self._old :] @ self._fresh.value.float()
        start = 0
        for shelf in self._shelves:
            pages = _pages(shelf, shelf.value_pages)
            part = flat[..., start : start + shelf.used]
            slots = pages.shape[1] * shelf.codec.slots
            if slots > shelf.used:
                part = F.pad(part, (0, slots - shelf.used))
            output += value_mix(shelf.codec, shelf.value_arena, pages, part)
            start += shelf.used
        return output.view(heads * group, rows, -1).to(self._fresh.query.dtype)

    def _allowed(self, first: int, last: int) -> Tensor:
        fresh = self._fresh
        if fresh.allowed is not None:
            return fresh.allowed[first:last]
        tokens = torch.arange(fresh.query.shape[1])
        return tokens[None] <= tokens[first:last, None]

    def _observe(self, seen: Seen, weights: Tensor, first: int) -> None:
        scorer, row = self._row.policy.scorer, self._row
        assert scorer is not None
        tokens = self._fresh.query.shape[1]
        positions = torch.arange(row.seen, row.seen + tokens, dtype=torch.int32)
        old = [shelf.positions[:, : shelf.used] for shelf in self._shelves]
        rows = positions[first : first + weights.shape[2]]
        everyone = torch.cat([*old, positions.expand(row.kv_heads, -1)], 1)
        seen.columns = scorer.observe(seen.columns, weights, everyone, rows)

    def _columns(self, tokens: int) -> dict[str, Tensor]:
        new = self._row.columns.rows(tokens)
        return {
            name: torch.cat(
                [*(shelf.columns[name][:, : shelf.used] for shelf in self._shelves), zeros], 1
            )
            for name, zeros in new.items()
        }

    def _find_alive(self) -> Tensor | None:
        """Return which old slots are alive (kv_heads, slots); None if all are."""
        if not any(shelf.has_dead for shelf in self._shelves):
            return None
        return torch.cat([shelf.alive[:, : shelf.used] for shelf in self._shelves], 1)


def part_columns(
    shelves: Sequence[Shelf], columns: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Write the state of old slots back to their shelves; return that of the new tokens."""
    start = 0
    for shelf in shelves:
        end = start + shelf.used
        for name, column in columns.items():
            shelf.columns[name][:, : shelf.used] = column[:, start:end]
        start = end
    return {name: column[:, start:] for name, column in columns.items()}


def _pages(shelf: Shelf, pages: Tensor) -> Tensor:
    return pages[:, : -(-shelf.used // shelf.codec.slots)]

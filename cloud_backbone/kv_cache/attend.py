# SPDX-License-Identifier: Apache-2.0
"""Attention of new tokens over one row: pages are decoded chunk by chunk, never as a whole.

Scores what the scorer asks to see in the same pass as the softmax. Knows one row and the new
tokens; changes neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cloud_backbone.kv_cache.kv_row import KVRow
from cloud_backbone.kv_cache.reading import joined, Reading
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
    """State of the scorer, name -> (kv_heads or 1, tokens)."""
    window: Tensor | None = None
    """Attention of the last rows (kv_heads, group, rows, slots), where it was asked for."""


class Attention:
    """Attention of some new tokens over a row and over each other."""

    def __init__(self, row: KVRow, fresh: Fresh) -> None:
        self._row, self._fresh = row, fresh
        self._reading = Reading(row)
        self._old = self._reading.slots
        self._group = fresh.query.shape[0] // row.kv_heads

    def run(self) -> tuple[Tensor, Seen]:
        """Return the output (heads, tokens, head_dim) and what the scorer saw.

        The scorer's state of stored slots is written back; that of the new tokens is returned.
        """
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
        seen.columns = self._reading.put_columns(seen.columns)
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
        parts = [self._reading.scores(query)] if self._old else []
        parts.append(query @ fresh.key.float().transpose(1, 2))
        logits = joined(parts, 2).mul_(fresh.scaling)
        if fresh.softcap is not None:
            logits = torch.tanh(logits / fresh.softcap) * fresh.softcap
        if self._old:
            self._reading.hide_dead(logits[..., : self._old])
        logits = logits.view(heads, self._group, last - first, -1)
        if last - first > 1 or fresh.allowed is not None or last < fresh.query.shape[1]:
            logits[..., self._old :].masked_fill_(~self._allowed(first, last), -torch.inf)
        return logits.softmax(-1)

    def _mix(self, weights: Tensor) -> Tensor:
        """Return the output of some rows (heads, rows, head_dim)."""
        heads, group, rows, _ = weights.shape
        flat = weights.reshape(heads, group * rows, -1)
        output = flat[..., self._old :] @ self._fresh.value.float()
        if self._old:
            output += self._reading.mix(flat[..., : self._old])
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
        rows = positions[first : first + weights.shape[2]]
        everyone = torch.cat(
            [*self._reading.positions(), positions.expand(row.kv_heads, -1)], 1
        )
        seen.columns = scorer.observe(seen.columns, weights, everyone, rows)

    def _columns(self, tokens: int) -> dict[str, Tensor]:
        new = self._row.columns.rows(tokens)
        return {
            name: torch.cat([*self._reading.column(name), zeros], 1) for name, zeros in new.items()
        }

# SPDX-License-Identifier: Apache-2.0
"""Cos and sin of positions, as the model's own rotary embedding computes them.

Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021. Channels come in
pairs (x, y) of one frequency each; at position p, where the angle is a = p * frequency, they
become

    x' = x cos a - y sin a        y' = y cos a + x sin a

The embedding is asked, not imitated: scaled frequencies, the attention factor of YaRN and the
rounding to the model's type are all in its answers. Pairs are either channel j and j + width / 2,
or neighbours; which of them is read off the model's own function. With multi-axis positions
(M-RoPE) each frequency follows one axis, found by moving one axis at a time. Embeddings whose
frequencies change while a sequence grows are refused: the position alone does not tell how a key
was rotated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cloud_backbone.kv_cache.errors import CacheError
import torch
from torch import Tensor

MOST = 1 << 22
"""Positions that a table may have."""
FEWEST = 1024
CHUNK = 1024
"""Slots whose rows are gathered at a time."""
FULL = 4
"""Positions per slot up to which picking products costs less than gathering rows."""
GROWING = ('dynamic', 'longrope')
"""Embeddings whose frequencies depend on the length of the sequence."""


class RotaryTable:
    """Cos and sin for every position so far; grows on demand, shared by all layers of a model.

    Args:
        rotary: the model's embedding, (states, positions) -> cos and sin.
        rotate: the model's function (query, key, cos, sin) -> both rotated.
        dtype: type that the model computes in.

    Raises:
        CacheError: the frequencies change on the way, or the pairs are unknown.
    """

    def __init__(
        self, rotary: Any, rotate: Callable[..., Any] | None, dtype: torch.dtype
    ) -> None:
        kind = getattr(rotary, 'rope_type', 'default')
        if not isinstance(kind, str) or kind in GROWING:
            raise CacheError(f'rotary embeddings of type {kind} rotate by more than the position')
        self._ask, self._dtype = rotary.forward, dtype  # forward, so that no hook is called
        sections = _sections(rotary)
        self.axes = len(sections) or 1
        """Components of a position: 1, or 3 with M-RoPE."""
        cos, sin = self._answer(torch.arange(8).expand(self.axes, -1))
        self.width = cos.shape[1]
        """Channels of a head that are rotated; those behind them are not."""
        twice = torch.equal(cos[:, : self.width // 2], cos[:, self.width // 2 :])
        half = slice(self.width // 2) if twice else slice(0, self.width, 2)
        self._half = half
        self.first, self.second = self._pairs(cos, sin, rotate)
        axis_of = self._find_axes(sections).repeat(2)
        self._columns = [(axis_of == axis).nonzero()[:, 0] for axis in range(self.axes)]
        """Of a row, those that follow each axis."""
        self._rows = cos.new_empty(0, self.width)
        self._parts: list[Tensor] = []
        """The same, each axis by itself, once that is asked for."""

    def rows(self, spots: Tensor) -> Tensor:
        """Return [cos | sin] (tokens, width) of rotary positions (axes or 1, tokens).

        Raises:
            CacheError: a position is negative or too large for a table.
        """
        table = self._reach(spots)
        if spots.shape[0] == 1:
            return table[spots[0]]
        rows = table.new_empty(spots.shape[1], self.width)
        for columns, part, places in zip(self._columns, self._by_axis(), spots, strict=True):
            rows.index_copy_(1, columns, part[places])
        return rows

    def dots(self, factors: Tensor, spots: Tensor) -> Tensor:
        """Multiply factors (heads, rows, width) with [cos | sin] of the slots of each head.

        Args:
            factors: float32.
            spots: rotary positions (axes or 1, heads, slots).

        Returns:
            float32 (heads, rows, slots).
        """
        table = self._reach(spots)
        if spots.shape[0] == 1:
            return _dots(factors, table, spots[0])
        total = factors.new_zeros(())
        for columns, part, places in zip(self._columns, self._by_axis(), spots, strict=True):
            total = _dots(factors[..., columns], part, places).add_(total)
        return total

    def _by_axis(self) -> list[Tensor]:
        """Return the columns of each axis as a table of its own; made when first asked for."""
        if not self._parts or len(self._parts[0]) != len(self._rows):
            self._parts = [self._rows[:, columns].contiguous() for columns in self._columns]
        return self._parts

    def _reach(self, spots: Tensor) -> Tensor:
        """Return a table that holds all these positions."""
        low, high = (int(end) for end in spots.aminmax())
        if low < 0 or high >= MOST:
            raise CacheError(f'rotary positions {low} to {high} are not within 0 to {MOST - 1}')
        if high >= len(self._rows):
            count = max(FEWEST, 1 << high.bit_length())
            cos, sin = self._answer(torch.arange(count).expand(self.axes, -1))
            self._rows = torch.cat([cos[:, self._half], sin[:, self._half]], 1)
        return self._rows

    def _answer(self, spots: Tensor) -> tuple[Tensor, Tensor]:
        """Ask for float32 cos and sin (tokens, width) of positions (axes, tokens)."""
        states = torch.empty(0, dtype=self._dtype)
        given = spots[:, None] if self.axes > 1 else spots
        with torch.no_grad():
            cos, sin = self._ask(states, given)
        self._undecided = cos.ndim == 4  # older versions choose the axis only when they rotate
        if self._undecided:
            cos, sin = cos[0], sin[0]
        return cos[0].float(), sin[0].float()

    def _pairs(
        self, cos: Tensor, sin: Tensor, rotate: Callable[..., Any] | None
    ) -> tuple[slice, slice]:
        """Return which channels are x and which are y."""
        width = self.width
        halves = slice(width // 2), slice(width // 2, width)
        neighbours = slice(0, width, 2), slice(1, width, 2)
        if rotate is None:
            return halves
        key = torch.linspace(-1, 1, width).repeat(len(cos), 1)
        truth = rotate(key[None, None], key[None, None], cos[None], sin[None])[1][0, 0]
        for first, second in (halves, neighbours):
            turned = torch.empty_like(key)
            x, y, c, s = key[:, first], key[:, second], cos[:, self._half], sin[:, self._half]
            turned[:, first], turned[:, second] = x * c - y * s, y * c + x * s
            if torch.allclose(turned, truth, atol=1e-3):
                return first, second
        raise CacheError('the model rotates channels in pairs that are not known')

    def _find_axes(self, sections: list[int]) -> Tensor:
        """Return the axis of each frequency (width / 2,)."""
        if self.axes == 1:
            return torch.zeros(self.width // 2, dtype=torch.int64)
        if self._undecided:
            return torch.arange(self.axes).repeat_interleave(torch.tensor(sections))
        moved = []
        for axis in range(self.axes):
            spot = torch.zeros(self.axes, 1, dtype=torch.int64)
            spot[axis] = 1
            moved.append(self._answer(spot)[1][0, self._half].abs())
        return torch.stack(moved).argmax(0)


def _dots(factors: Tensor, table: Tensor, spots: Tensor) -> Tensor:
    """Multiply (heads, rows, columns) with rows of a table, those of (heads, slots)."""
    count, slots = int(spots.max()) + 1, spots.shape[1]
    if count <= FULL * slots:  # one product with every position, then pick
        chosen = spots[:, None].expand(-1, factors.shape[1], -1)
        return (factors @ table[:count].T).gather(2, chosen)
    parts = [factors @ table[part].mT for part in spots.split(CHUNK, 1)]
    return torch.cat(parts, 2)


def _sections(rotary: Any) -> list[int]:
    """Return how many frequencies each axis has; empty with one axis."""
    config = getattr(rotary, 'config', None)
    for place in ('rope_parameters', 'rope_scaling'):
        parameters = getattr(config, place, None)
        if isinstance(parameters, dict) and parameters.get('mrope_section'):
            return list(parameters['mrope_section'])
    return list(getattr(rotary, 'mrope_section', None) or [])

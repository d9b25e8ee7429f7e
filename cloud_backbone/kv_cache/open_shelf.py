# SPDX-License-Identifier: Apache-2.0
"""The shelf that new tokens go to: raw numbers, written token by token, dead slots first.

Under a policy without a codec it is the whole row; under the others it holds the newest tokens
until a block of them is encoded. Knows slots and tokens; does not know which tokens matter.
"""

from __future__ import annotations

from collections.abc import Mapping

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.columns import Columns
from cloud_backbone.kv_cache.raw import RawCodec
from cloud_backbone.kv_cache.shelf import DEAD, Shelf
import torch
from torch import Tensor


class OpenShelf(Shelf):
    """A shelf of raw blocks.

    Args:
        pool: where pages come from.
        codec: the dtype that tokens are kept in.
        kv_heads: heads of keys and values.
        columns: what a scorer keeps for each slot.
    """

    codec: RawCodec

    def __init__(
        self, pool: BlockPool, codec: RawCodec, kv_heads: int, columns: Columns
    ) -> None:
        super().__init__(pool, codec, kv_heads, columns)
        self.tail = 0
        """Slots from here on were never written since the last packing."""
        self._views: tuple[Tensor, Tensor] | None = None
        self._viewed: Tensor | None = None
        """Page numbers that the views are of."""

    @property
    def used(self) -> int:
        """Slots of each head that attention has to read."""
        return self.tail

    def append(self, key: Tensor, value: Tensor, positions: Tensor,
               columns: Mapping[str, Tensor]) -> None:
        """Write tokens where there is room; take new blocks where there is none.

        Args:
            key: (kv_heads, tokens, head_dim); value likewise.
            value: see key.
            positions: of the tokens, the same in all heads (tokens,).
            columns: name -> (kv_heads or 1, tokens).
        """
        tokens = positions.shape[0]
        if self.has_dead:
            self._scatter(self._room(tokens), key, value, positions, columns)
            return
        first, last = self.tail, self.tail + tokens
        self.extend(-(-(last - self.slots) // self.codec.slots))
        self._own()
        self._write_tail(key, value)
        self.positions[:, first:last] = positions
        for name, column in columns.items():
            self.columns[name][:, first:last] = column

    def tokens(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values (kv_heads, tokens, head_dim) of slots (kv_heads, tokens)."""
        keys = self._typed(self.key_arena)[self._rows(self.key_pages, slots)]
        return keys, self._typed(self.value_arena)[self._rows(self.value_pages, slots)]

    def pack(self, kept: Tensor) -> None:
        """Keep these slots (kv_heads, tokens), in this order and without gaps, and no others."""
        key, value = self.tokens(kept)
        positions = self.positions.gather(1, kept)
        columns = {
            name: old.gather(1, kept[: old.shape[0]]) for name, old in self.columns.items()
        }
        self.positions.fill_(DEAD)
        self.tail, self.has_dead = 0, False
        self.keep_first(-(-kept.shape[1] // self.codec.slots))
        self._own()
        self._write_tail(key, value)
        self.positions[:, : self.tail] = positions
        for name, column in columns.items():
            self.columns[name][:, : self.tail] = column

    def drop_last(self, position: int) -> None:
        """Forget the tokens from ``position`` on; empty blocks at the end are kept."""
        self.kill(self.positions >= position)
        written = self.alive.any(0).nonzero()
        self.tail = int(written[-1]) + 1 if len(written) else 0
        self.has_dead = not bool(self.alive[:, : self.tail].all())

    def in_order(self) -> tuple[Tensor, Tensor]:
        """Return keys and values (kv_heads, tail, head_dim): in place where pages lie in runs."""
        runs = self._runs()
        if runs is None:
            return self.tokens(torch.arange(self.tail).expand(self.kv_heads, -1))
        return runs[0][:, : self.tail], runs[1][:, : self.tail]

    def fork(self) -> OpenShelf:
        """Return a shelf with the same content that shares the pages until one is written."""
        twin = OpenShelf(self.pool, self.codec, self.kv_heads, self._columns)
        self._share_with(twin)
        twin.tail = self.tail
        return twin

    def _scatter(self, slots: Tensor, key: Tensor, value: Tensor, positions: Tensor,
                 columns: Mapping[str, Tensor]) -> None:
        self._own()
        key_rows, value_rows = (
            self._rows(pages, slots) for pages in (self.key_pages, self.value_pages)
        )
        self._typed(self.key_arena)[key_rows] = self.codec.narrow(key)
        self._typed(self.value_arena)[value_rows] = self.codec.narrow(value)
        self.positions.scatter_(1, slots, positions.to(torch.int32).expand_as(slots))
        for name, column in columns.items():
            self.columns[name].scatter_(1, slots[: column.shape[0]], column)

    def _write_tail(self, key: Tensor, value: Tensor) -> None:
        first = self.tail
        self.tail += key.shape[1]
        runs = self._runs()
        if runs is not None:
            runs[0][:, first : self.tail] = self.codec.narrow(key)
            runs[1][:, first : self.tail] = self.codec.narrow(value)
            return
        slots = torch.arange(first, self.tail).expand(self.kv_heads, -1)
        for arena, pages, states in (
            (self.key_arena, self.key_pages, key), (self.value_arena, self.value_pages, value)
        ):
            self._typed(arena)[self._rows(pages, slots)] = self.codec.narrow(states)

    def _room(self, tokens: int) -> Tensor:
        """Return dead slots to write (kv_heads, tokens); take new blocks where they lack."""
        free = ~self.alive
        missing = tokens - int(free.sum(1).min())
        if missing > 0:
            self.extend(-(-missing // self.codec.slots))
            free = ~self.alive
        slots = free.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :tokens]
        if tokens:
            self.tail = max(self.tail, int(slots.max()) + 1)
        return slots

    def _typed(self, arena: Tensor) -> Tensor:
        """Return an arena as tokens (pages * slots, head_dim)."""
        return arena.view(self.codec.dtype).view(-1, self.codec.head_dim)

    def _rows(self, pages: Tensor, slots: Tensor) -> Tensor:
        size = self.codec.slots
        return pages.gather(1, slots // size) * size + slots % size

    def _runs(self) -> tuple[Tensor, Tensor] | None:
        """Return keys and values (kv_heads, slots, head_dim) in place, if pages lie in runs."""
        if self._viewed is not self.key_pages:
            key = self._view(self.key_arena, self.key_pages)
            value = self._view(self.value_arena, self.value_pages)
            self._views = None if key is None or value is None else (key, value)
            self._viewed = self.key_pages
        return self._views

    def _view(self, arena: Tensor, pages: Tensor) -> Tensor | None:
        heads, blocks = pages.shape
        if not blocks:
            return None
        first = int(pages[0, 0])
        step = int(pages[1, 0]) - first if heads > 1 else blocks
        run = first + step * torch.arange(heads)[:, None] + torch.arange(blocks)
        if not torch.equal(run, pages):
            return None
        size, width = self.codec.slots, self.codec.head_dim
        return self._typed(arena).as_strided(
            (heads, blocks * size, width), (step * size * width, width, 1), first * size * width
        )

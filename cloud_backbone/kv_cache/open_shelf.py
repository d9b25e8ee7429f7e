# SPDX-License-Identifier: Apache-2.0
"""The shelf that new tokens go to: raw numbers, written token by token, dead slots first.

Under a policy without a codec it is the whole row; under the others it holds the newest tokens
until a block of them is encoded. Knows slots and tokens; does not know which tokens matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.columns import Columns
from cloud_backbone.kv_cache.errors import PoolFullError
from cloud_backbone.kv_cache.raw import RawCodec
from cloud_backbone.kv_cache.shelf import DEAD, Shelf
import torch
from torch import Tensor


@dataclass(frozen=True)
class _Holes:
    """Dead slots (kv_heads, holes), and their rows in the arenas of keys and values."""

    slots: Tensor
    key_rows: Tensor
    value_rows: Tensor

    def first(self, count: int) -> _Holes:
        """Return the first holes."""
        return _Holes(
            self.slots[:, :count], self.key_rows[:, :count], self.value_rows[:, :count]
        )

    def after(self, count: int) -> _Holes:
        """Return the holes behind the first."""
        return _Holes(
            self.slots[:, count:], self.key_rows[:, count:], self.value_rows[:, count:]
        )


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
        self._holes: _Holes | None = None
        """Dead slots that are written next; None: to be looked for."""
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
            self._own()
            self._scatter(self._holes_for(tokens), key, value, positions, columns)
            return
        first, last = self.tail, self.tail + tokens
        self.extend(-(-(last - self.slots) // self.codec.slots))
        self._own()
        self._write_tail(key, value)
        self.positions[:, first:last] = positions
        for name, column in columns.items():
            self.columns[name][:, first:last] = column

    def extend(self, blocks: int) -> None:
        """Add blocks; move all to pages side by side, where they no longer are."""
        super().extend(blocks)
        if blocks > 0 and not self._forked and self._runs() is None:
            self._gather_pages()

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
        self.tail, self.has_dead, self._holes = 0, False, None
        self.keep_first(-(-kept.shape[1] // self.codec.slots))
        self._own()
        self._write_tail(key, value)
        self.positions[:, : self.tail] = positions
        for name, column in columns.items():
            self.columns[name][:, : self.tail] = column

    def drop_last(self, position: int) -> None:
        """Forget the tokens from ``position`` on; empty blocks at the end are kept."""
        self.kill(self.positions >= position)
        self._holes = None
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

    def release(self, doomed: Tensor) -> None:
        """Drop slots (kv_heads, tokens), the same number in each head; they are written next."""
        self.positions.scatter_(1, doomed, DEAD)
        fresh = not self.has_dead
        self.has_dead = True
        self._holes = self._addressed(doomed) if fresh else None

    @property
    def room(self) -> int:
        """Count the dead slots that every head has below the tail."""
        if not self.has_dead:
            return 0
        if self._holes is None:
            self._holes = self._find_holes()
        return self._holes.slots.shape[1]

    def _holes_for(self, tokens: int) -> _Holes:
        """Remove so many holes from the list; take unwritten slots and new blocks where needed."""
        missing = tokens - self.room
        if missing > 0:
            self.extend(-(-(self.tail + missing - self.slots) // self.codec.slots))
            self._own()
            self.tail += missing
            self._holes = self._find_holes()
        holes = self._holes
        assert holes is not None
        self._holes = holes.after(tokens)
        if not self._holes.slots.shape[1] or missing > 0:
            self._holes = None
        return holes.first(tokens)

    def _find_holes(self) -> _Holes:
        dead = ~self.alive[:, : self.tail]
        count = int(dead.sum(1).min())
        order = dead.to(torch.int8).argsort(dim=1, descending=True, stable=True)
        return self._addressed(order[:, :count])

    def _addressed(self, slots: Tensor) -> _Holes:
        return _Holes(
            slots, self._rows(self.key_pages, slots), self._rows(self.value_pages, slots)
        )

    def _own(self) -> None:
        if self._forked:
            self._holes = None
        super()._own()

    def _scatter(self, holes: _Holes, key: Tensor, value: Tensor, positions: Tensor,
                 columns: Mapping[str, Tensor]) -> None:
        self._typed(self.key_arena)[holes.key_rows] = self.codec.narrow(key)
        self._typed(self.value_arena)[holes.value_rows] = self.codec.narrow(value)
        slots = holes.slots
        self.positions.scatter_(1, slots, positions.to(torch.int32).expand_as(slots))
        for name, column in columns.items():
            self.columns[name].scatter_(1, slots[: column.shape[0]], column)
        if self._holes is None:
            self.has_dead = not bool(self.alive[:, : self.tail].all())

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

    def _gather_pages(self) -> None:
        """Move to pages that lie in runs; stay where the pool has no room for both."""
        count, size = self.key_pages.numel(), self.codec.key_bytes
        try:
            pages = self.pool.take(size, 2 * count)
        except PoolFullError:
            return
        arena = self.pool.arena(size)
        old = torch.cat([self.key_pages.flatten(), self.value_pages.flatten()])
        arena[pages] = arena[old]
        self.pool.give(size, old)
        self.key_pages = pages[:count].view_as(self.key_pages)
        self.value_pages = pages[count:].view_as(self.value_pages)
        self._holes = None

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

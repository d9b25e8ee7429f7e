# SPDX-License-Identifier: Apache-2.0
"""The shelf that new tokens go to: raw numbers, written token by token, dead slots first.

Under a policy without a codec it is the whole row; under the others it holds the newest tokens
until a block of them is encoded. Knows slots and tokens; does not know which tokens matter.
"""

from __future__ import annotations

from collections.abc import Mapping
import weakref

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.columns import Columns
from cloud_backbone.kv_cache.errors import PoolFullError
from cloud_backbone.kv_cache.raw import RawCodec
from cloud_backbone.kv_cache.shelf import DEAD, Shelf
import torch
from torch import Tensor

HOLES = 32
"""Dead slots of each head that are known at a time."""


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
        self._holes: Tensor | None = None
        """Dead slots that are written next (kv_heads, holes); None: to be looked for."""
        self._views: tuple[Tensor, Tensor] | None = None
        self._viewed: weakref.ref[Tensor] | None = None
        """Page numbers that the views are of; they are not kept alive by it."""

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
            self._scatter(self._room_for(tokens), key, value, positions, columns)
            return
        first, last = self.tail, self.tail + tokens
        self.extend(-(-(last - self.slots) // self.codec.slots))
        self._own()
        self._write_tail(key, value)
        self.positions[:, first:last] = positions
        for name, column in columns.items():
            self.columns[name][:, first:last] = column

    @property
    def holes(self) -> Tensor | None:
        """Dead slots that are written next (kv_heads, holes), as far as they are known."""
        return self._holes

    def put_slots(self, key: Tensor, value: Tensor, positions: Tensor,
                  columns: Mapping[str, Tensor], holes: Tensor | None) -> None:
        """Write the first slots as another shelf had them (kv_heads, slots, ...), dead ones too.

        Nothing was written before.
        """
        assert not self.tail, 'the shelf is not empty'
        device = self.key_arena.device
        self._write_tail(key.to(device), value.to(device))
        self.positions[:, : self.tail] = positions
        for name, column in columns.items():
            self.columns[name][:, : self.tail] = column
        self._holes = None if holes is None else holes.clone()

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
        self.has_dead = bool((positions < 0).any())
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

    def nbytes(self) -> int:
        """Bytes of pages, page numbers, positions, scores and known holes [B]."""
        return super().nbytes() + (0 if self._holes is None else self._holes.nbytes)

    @property
    def most_hole_bytes(self) -> int:
        """Bytes that the known holes take at most [B]."""
        return HOLES * self.kv_heads * self.key_pages.element_size()

    def release(self, doomed: Tensor) -> None:
        """Drop slots (kv_heads, tokens), the same number in each head; they are written next."""
        known = not self.has_dead and doomed.shape[1] <= HOLES
        self.positions.scatter_(1, doomed, DEAD)
        self.has_dead = True
        self._holes = doomed.contiguous() if known else None

    @property
    def room(self) -> int:
        """Count the dead slots below the tail that every head has, as far as they are known."""
        if not self.has_dead:
            return 0
        if self._holes is None:
            self._holes = self._find_holes(HOLES)
        return self._holes.shape[1]

    def _room_for(self, tokens: int) -> Tensor:
        """Return slots to write (kv_heads, tokens): dead ones, then unwritten ones."""
        if tokens > self.room:
            self._holes = self._find_holes(tokens)
            missing = tokens - self.room
            self.extend(-(-(self.tail + missing - self.slots) // self.codec.slots))
            self._own()
            self.tail += max(missing, 0)
            self._holes = self._find_holes(tokens)
        assert self._holes is not None
        slots = self._holes[:, :tokens]
        # A copy: the list must not keep the memory of those that were used.
        self._holes = self._holes[:, tokens:].clone() if tokens < self.room else None
        return slots

    def _find_holes(self, most: int) -> Tensor:
        dead = ~self.alive[:, : self.tail]
        count = min(int(dead.sum(1).min()), most)
        order = dead.to(torch.int8).argsort(dim=1, descending=True, stable=True)
        return order[:, :count].contiguous()

    def _scatter(self, slots: Tensor, key: Tensor, value: Tensor, positions: Tensor,
                 columns: Mapping[str, Tensor]) -> None:
        runs = self._runs()
        if runs is not None:
            heads = torch.arange(self.kv_heads)[:, None]
            runs[0][heads, slots] = self.codec.narrow(key)
            runs[1][heads, slots] = self.codec.narrow(value)
        else:
            self._write(slots, key, value)
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
        self._write(torch.arange(first, self.tail).expand(self.kv_heads, -1), key, value)

    def _write(self, slots: Tensor, key: Tensor, value: Tensor) -> None:
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
        if self._viewed is None or self._viewed() is not self.key_pages:
            key = self._view(self.key_arena, self.key_pages)
            value = self._view(self.value_arena, self.value_pages)
            self._views = None if key is None or value is None else (key, value)
            self._viewed = weakref.ref(self.key_pages)
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

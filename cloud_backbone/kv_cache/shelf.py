# SPDX-License-Identifier: Apache-2.0
"""Blocks of one codec in one layer of one session: pages, positions and scores of their slots.

All KV heads have the same number of blocks; what lies in them differs from head to head. A slot
whose position is -1 is dead: nobody looks at it, and it may be written anew. Before a page that a
fork still owns is written, it is copied. Knows no attention and no budget.
"""

from __future__ import annotations

from collections.abc import Mapping

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.codec import Codec
from cloud_backbone.kv_cache.columns import Columns
import torch
from torch import Tensor

DEAD = -1


class Shelf:
    """Slots of ``kv_heads`` heads, stored in one codec.

    Args:
        pool: where pages come from.
        codec: how a block becomes bytes.
        kv_heads: heads of keys and values.
        columns: names, types and heads of what a scorer keeps for each slot.
    """

    def __init__(self, pool: BlockPool, codec: Codec, kv_heads: int, columns: Columns) -> None:
        self.pool, self.codec, self.kv_heads = pool, codec, kv_heads
        self.key_pages = torch.empty(kv_heads, 0, dtype=torch.int64)
        self.value_pages = torch.empty(kv_heads, 0, dtype=torch.int64)
        self.positions = torch.empty(kv_heads, 0, dtype=torch.int32)
        """Position of each slot (kv_heads, slots); DEAD where there is none."""
        self.columns = columns.rows(0)
        """State of the scorer, name -> (kv_heads or 1, slots)."""
        self._columns = columns
        self.has_dead = False
        """Whether attention must look out for dead slots."""
        self._forked = False

    @property
    def blocks(self) -> int:
        """Blocks of each head."""
        return self.key_pages.shape[1]

    @property
    def slots(self) -> int:
        """Slots of each head, dead ones included."""
        return self.positions.shape[1]

    @property
    def used(self) -> int:
        """Slots of each head that attention has to read; those behind them were never written."""
        return self.slots

    @property
    def alive(self) -> Tensor:
        """Whether a slot is in use (kv_heads, slots)."""
        return self.positions >= 0

    @property
    def block_bytes(self) -> int:
        """Bytes of one block of all KV heads, with all that describes it [B]."""
        codec = self.codec
        pages = codec.key_bytes + codec.value_bytes + 2 * self.key_pages.element_size()
        slot = self.kv_heads * self.positions.element_size() + self._columns.slot_bytes
        return self.kv_heads * pages + codec.slots * slot

    def nbytes(self) -> int:
        """Bytes of pages, page numbers, positions and scores [B]."""
        pages = self.key_pages.numel() * (self.codec.key_bytes + self.codec.value_bytes)
        tensors = [self.key_pages, self.value_pages, self.positions, *self.columns.values()]
        return pages + sum(tensor.nbytes for tensor in tensors)

    def extend(self, blocks: int) -> None:
        """Add blocks of dead slots; their pages are zero.

        Raises:
            PoolFullError: the pool has no room; nothing is changed.
        """
        if blocks <= 0:
            return
        count, codec, heads = self.kv_heads * blocks, self.codec, self.kv_heads
        keys = self.pool.take(codec.key_bytes, count)
        try:
            values = self.pool.take(codec.value_bytes, count)
        except BaseException:
            self.pool.give(codec.key_bytes, keys)
            raise
        if self.codec.layout != 'raw':  # writing one slot may read the rest of its page
            self.key_arena[keys], self.value_arena[values] = 0, 0
        self.key_pages = torch.cat([self.key_pages, keys.view(heads, blocks)], 1)
        self.value_pages = torch.cat([self.value_pages, values.view(heads, blocks)], 1)
        slots = blocks * codec.slots
        dead = self.positions.new_full((heads, slots), DEAD)
        self.positions = torch.cat([self.positions, dead], 1)
        fresh = self._columns.rows(slots)
        self.columns = {name: torch.cat([old, fresh[name]], 1)
                        for name, old in self.columns.items()}

    def keep(self, kept: Tensor) -> None:
        """Keep these blocks (kv_heads, blocks) in this order; give back all others at once."""
        gone = torch.ones_like(self.key_pages, dtype=torch.bool).scatter_(1, kept, False)
        self.pool.give(self.codec.key_bytes, self.key_pages[gone])
        self.pool.give(self.codec.value_bytes, self.value_pages[gone])
        self.key_pages = self.key_pages.gather(1, kept)
        self.value_pages = self.value_pages.gather(1, kept)
        slots = self._slots_of(kept)
        self.positions = self.positions.gather(1, slots)
        self.columns = {
            name: old.gather(1, slots[: old.shape[0]]) for name, old in self.columns.items()
        }

    def keep_first(self, blocks: int) -> None:
        """Keep the first blocks of each head."""
        if blocks < self.blocks:
            self.keep(torch.arange(max(blocks, 0)).expand(self.kv_heads, -1))

    def drop_empty(self) -> None:
        """Give back the blocks without a live slot, as many of each head."""
        filled = self.alive.view(self.kv_heads, self.blocks, -1).any(2)
        most = int(filled.sum(1).max())
        if most < self.blocks:
            order = filled.to(torch.int8).argsort(dim=1, descending=True, stable=True)
            self.keep(order[:, :most])

    def clear(self) -> None:
        """Give all pages back."""
        self.keep_first(0)

    def kill(self, doomed: Tensor) -> None:
        """Mark slots (kv_heads, slots) as dead."""
        self.positions.masked_fill_(doomed, DEAD)
        self.has_dead = True

    def raw(self) -> tuple[Tensor, Tensor]:
        """Decode everything: keys and values (kv_heads, slots, head_dim)."""
        return (
            self.codec.decode_key(self.key_arena[self.key_pages]),
            self.codec.decode_value(self.value_arena[self.value_pages]),
        )

    def put_pages(self, key: Tensor, value: Tensor, positions: Tensor,
                  columns: Mapping[str, Tensor]) -> None:
        """Fill an empty shelf with pages as they are (kv_heads, blocks, bytes); see ``fill``."""
        assert not self.blocks, 'the shelf is not empty'
        self.extend(key.shape[1])
        if self.blocks:
            self.key_arena[self.key_pages] = key.to(self.key_arena.device)
            self.value_arena[self.value_pages] = value.to(self.value_arena.device)
        self.positions.copy_(positions)
        for name, column in columns.items():
            self.columns[name].copy_(column)

    @property
    def key_arena(self) -> Tensor:
        """All key pages of this size in the pool (pages, key_bytes)."""
        return self.pool.arena(self.codec.key_bytes)

    @property
    def value_arena(self) -> Tensor:
        """All value pages of this size in the pool (pages, value_bytes)."""
        return self.pool.arena(self.codec.value_bytes)

    def fill(self, first: int, key: Tensor, value: Tensor, positions: Tensor,
             columns: Mapping[str, Tensor]) -> None:
        """Write whole blocks from block ``first`` on.

        Args:
            first: the first block to write.
            key: (kv_heads, slots, head_dim); value likewise.
            value: see key.
            positions: (kv_heads, slots).
            columns: name -> (kv_heads or 1, slots).
        """
        self._own()
        pages = self.codec.encode_key(key)
        blocks = slice(first, first + pages.shape[1])
        self.key_arena[self.key_pages[:, blocks]] = pages
        self.value_arena[self.value_pages[:, blocks]] = self.codec.encode_value(value)
        slots = slice(blocks.start * self.codec.slots, blocks.stop * self.codec.slots)
        self.positions[:, slots] = positions
        for name, column in columns.items():
            self.columns[name][:, slots] = column
        self.has_dead = not bool(self.alive.all())

    def write(self, mask: Tensor, key: Tensor, value: Tensor, positions: Tensor,
              columns: Mapping[str, Tensor]) -> None:
        """Write single slots; only codecs whose ``group`` is 1 can.

        Args:
            mask: the slots to write (kv_heads, slots); as many in each head as there are tokens,
                or fewer, then the first tokens of that head are taken.
            key: tokens (kv_heads, tokens, head_dim); value likewise.
            value: see key.
            positions: (kv_heads, tokens).
            columns: name -> (kv_heads or 1, tokens).
        """
        self._own()
        order = (mask.cumsum(1) - 1).clamp_(0, max(positions.shape[1] - 1, 0))
        shape = (self.kv_heads, self.blocks, self.codec.slots)
        wide = order[..., None].expand(-1, -1, key.shape[2])
        places = mask.view(shape)
        spread = (*shape, key.shape[2])
        keys = self.codec.write_key(
            self.key_arena[self.key_pages], places, key.gather(1, wide).view(spread)
        )
        values = self.codec.write_value(
            self.value_arena[self.value_pages], places, value.gather(1, wide).view(spread)
        )
        self.key_arena[self.key_pages], self.value_arena[self.value_pages] = keys, values
        self.positions = torch.where(mask, positions.gather(1, order), self.positions)
        for name, new in columns.items():
            heads = new.shape[0]
            spread_new = new.gather(1, order[:heads])
            self.columns[name] = torch.where(mask[:heads], spread_new, self.columns[name])
        self.has_dead = not bool(self.alive.all())

    def fork(self) -> Shelf:
        """Return a shelf with the same content that shares the pages until one is written."""
        twin = Shelf(self.pool, self.codec.fork(), self.kv_heads, self._columns)
        self._share_with(twin)
        return twin

    def _share_with(self, twin: Shelf) -> None:
        twin.key_pages, twin.value_pages = self.key_pages.clone(), self.value_pages.clone()
        twin.positions, twin.has_dead = self.positions.clone(), self.has_dead
        twin.columns = {name: column.clone() for name, column in self.columns.items()}
        self.pool.share(self.codec.key_bytes, self.key_pages)
        self.pool.share(self.codec.value_bytes, self.value_pages)
        self._forked = twin._forked = True

    def _own(self) -> None:
        """Copy the pages that other shelves own too."""
        if not self._forked:
            return
        self.key_pages = self._copied(self.codec.key_bytes, self.key_pages)
        self.value_pages = self._copied(self.codec.value_bytes, self.value_pages)
        self._forked = False

    def _copied(self, size: int, pages: Tensor) -> Tensor:
        """Return the page numbers with copies in the place of shared pages."""
        shared = self.pool.is_shared(size, pages)
        old = pages[shared]
        new = self.pool.take(size, len(old))
        arena = self.pool.arena(size)
        arena[new] = arena[old]
        self.pool.give(size, old)
        return pages.masked_scatter(shared, new)

    def _slots_of(self, blocks: Tensor) -> Tensor:
        """Return the slots (kv_heads, slots) of blocks (kv_heads, blocks)."""
        size = self.codec.slots
        return (blocks[..., None] * size + torch.arange(size)).flatten(1)

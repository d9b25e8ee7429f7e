# SPDX-License-Identifier: Apache-2.0
"""How open tokens become sealed slots within a limit: evict on exact scores, then encode.

Codecs that write single slots fill holes with the best tokens of old and new together. Codecs
that write whole blocks drop whole blocks, those of least mean worth; what was encoded is never
encoded again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloud_backbone.kv_cache.ranking import best, by_age
from cloud_backbone.kv_cache.shelf import DEAD, Shelf
import torch
from torch import Tensor

if TYPE_CHECKING:
    from cloud_backbone.kv_cache.kv_row import KVRow


def seal(row: KVRow, tokens: int, limit: int | None) -> None:
    """Move the ``tokens`` oldest tokens of the open shelf, raw sinks aside, to the sealed one.

    Args:
        row: the row.
        tokens: how many; where they fill no whole block, the last one is sealed in part.
        limit: slots that the sealed shelf may have; None: all are kept.
    """
    assert row.sealed is not None
    worth = row.worth(row.open)
    order = by_age(row.open.positions)[:, : int(row.open.alive.sum(1).max())]
    sinks, oldest, rest = order.tensor_split([row.raw_sinks, row.raw_sinks + tokens], 1)
    if limit is None:
        limit = row.sealed.slots + _blocks(row.sealed, tokens) * row.sealed.codec.slots
    if row.sealed.codec.group == 1:
        _merge(row, row.sealed, oldest, worth, limit)
    else:
        _stack(row, row.sealed, oldest, worth, limit)
    row.open.pack(torch.cat([sinks, rest], 1))


def _stack(row: KVRow, shelf: Shelf, slots: Tensor, worth: Tensor, limit: int) -> None:
    """Add whole blocks; make room by dropping whole blocks."""
    size = shelf.codec.slots
    room, new = limit // size, _blocks(shelf, slots.shape[1])
    old = shelf.blocks
    if old + new > room:
        new = _share_of_new(row, shelf, worth.gather(1, slots), room)
        _keep_best_blocks(row, shelf, min(old, room - new))
        chosen = best(worth.gather(1, slots), row.open.positions.gather(1, slots), new * size)
        slots = slots.gather(1, chosen)
    first = shelf.blocks
    if new == 0:
        return
    shelf.extend(new)
    positions, columns = _described(row, slots)
    lacking = new * size - slots.shape[1]
    if lacking > 0:  # a real slot again and again, which is dead there
        slots = torch.cat([slots, slots[:, -1:].expand(-1, lacking)], 1)
        positions, columns = _described(row, slots)
        positions[:, -lacking:] = DEAD
    key, value = row.open.tokens(slots)
    shelf.fill(first, key, value, positions, columns)


def _share_of_new(row: KVRow, shelf: Shelf, fresh: Tensor, room: int) -> int:
    """Say how many blocks the new tokens deserve: their share of the best slots, at least one.

    Blocks with something pinned stay, even if there is then no room for new ones.
    """
    size = shelf.codec.slots
    pooled = torch.cat([row.worth(shelf), fresh], 1)
    top = pooled.topk(min(room * size, pooled.shape[1]), 1).indices
    wins = (top >= shelf.slots).sum().item() / row.kv_heads
    most = min(room - _pinned_blocks(row, shelf), _blocks(shelf, fresh.shape[1]))
    return max(min(max(round(wins / size), room - shelf.blocks, 1), most), 0)


def _pinned_blocks(row: KVRow, shelf: Shelf) -> int:
    """Count the blocks that hold something pinned, in the head with most of them."""
    pinned = torch.zeros_like(shelf.alive)
    for first, end in row.pins:
        pinned |= (shelf.positions >= first) & (shelf.positions < end)
    shape = (row.kv_heads, shelf.blocks, shelf.codec.slots)
    return int(pinned.view(shape).any(2).sum(1).max())


def _blocks(shelf: Shelf, tokens: int) -> int:
    """Return how many blocks so many tokens need."""
    return -(-tokens // shelf.codec.slots)


def _keep_best_blocks(row: KVRow, shelf: Shelf, blocks: int) -> None:
    if blocks < shelf.blocks:
        worth = _block_worth(row, shelf)
        order = worth.argsort(dim=1, descending=True, stable=True)[:, :blocks]
        shelf.keep(order.sort(1).values)


def _block_worth(row: KVRow, shelf: Shelf) -> Tensor:
    """Return the mean worth of the live slots of each block (kv_heads, blocks)."""
    shape = (row.kv_heads, shelf.blocks, shelf.codec.slots)
    alive = shelf.alive.view(shape)
    # Divided before the sum: protected slots are worth nearly the largest float.
    total = (row.worth(shelf).view(shape) / shelf.codec.slots).masked_fill(~alive, 0.0).sum(2)
    share = alive.float().mean(2)
    return torch.where(share > 0, total / share.clamp(min=1e-9), -torch.inf)


def _merge(row: KVRow, shelf: Shelf, slots: Tensor, worth: Tensor, limit: int) -> None:
    """Keep the best slots of old and new together; write the new ones into holes."""
    _keep_best_blocks(row, shelf, limit // shelf.codec.slots)
    old = shelf.slots
    positions = torch.cat([shelf.positions, row.open.positions.gather(1, slots)], 1)
    pooled = torch.cat([row.worth(shelf), worth.gather(1, slots)], 1)
    chosen = torch.zeros_like(pooled, dtype=torch.bool)
    chosen.scatter_(1, best(pooled, positions, limit), True)
    chosen &= positions >= 0
    shelf.kill(~chosen[:, :old])
    fresh = chosen[:, old:]
    needed = int(chosen.sum(1).max())
    shelf.extend(-(-(needed - old) // shelf.codec.slots))
    count = int(fresh.sum(1).max())
    if count == 0:
        return
    order = (~fresh).to(torch.int8).argsort(dim=1, stable=True)[:, :count]  # the chosen ones first
    places = _places(shelf, fresh.sum(1, keepdim=True))
    taken = slots.gather(1, order)
    key, value = row.open.tokens(taken)
    shelf.write(places, key, value, *_described(row, taken))


def _places(shelf: Shelf, counts: Tensor) -> Tensor:
    """Return the first ``counts`` (kv_heads, 1) dead slots of each head as a mask."""
    dead = ~shelf.alive
    return dead & (dead.cumsum(1) <= counts)


def _described(row: KVRow, slots: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Return positions and columns of open slots (kv_heads, tokens)."""
    columns = {
        name: column.gather(1, slots[: column.shape[0]])
        for name, column in row.open.columns.items()
    }
    return row.open.positions.gather(1, slots), columns

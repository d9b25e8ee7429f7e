# SPDX-License-Identifier: Apache-2.0
"""Adaptive precision: 16, 8, 4 or 2 bits a number, or none, by how much a slot matters.

With distortion eps(b) of b bits (1 for a dropped slot), worth w and bytes c of a block, the best
use of a budget is a threshold: each block takes the tier of least w * eps(b) + mu * c(b), and mu
is bisected until the bytes fit. Related: MiKV (arXiv:2402.18096), ZipCache (arXiv:2405.14256).

Blocks are made of slots of like rank, so that a block has one tier. Blocks only move down, since
encoding again cannot bring back what is lost; they stay until their worth is a tenth below the
threshold. Knows one row; what a slot is worth, a scorer said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloud_backbone.kv_cache.ranking import by_age
from cloud_backbone.kv_cache.shelf import Shelf
import torch
from torch import Tensor

if TYPE_CHECKING:
    from cloud_backbone.kv_cache.kv_row import KVRow

DISTORTION = (1e-7, 1e-4, 3e-3, 0.4, 1.0)
"""Squared relative error of attention at 16, 8, 4, 2 and 0 bits: measured, far from 4^-bits."""
STEADINESS = 0.9
"""A block moves down when its worth falls below this part of its tier's threshold."""
ROUNDS = 40


@dataclass(frozen=True)
class _Slots:
    """Raw tokens by descending worth of their blocks, with all that describes them."""

    key: Tensor
    """(kv_heads, slots, head_dim)."""
    value: Tensor
    positions: Tensor
    """(kv_heads, slots)."""
    columns: dict[str, Tensor]

    def part(self, chosen: Tensor, size: int) -> _Slots:
        """Return the blocks of a mask (blocks,)."""
        slots = chosen.repeat_interleave(size)
        columns = {name: column[:, slots] for name, column in self.columns.items()}
        return _Slots(
            self.key[:, slots], self.value[:, slots], self.positions[:, slots], columns
        )


def retier(row: KVRow, tokens: int, limit: int | None) -> None:
    """Encode the ``tokens`` oldest open tokens, each block in the tier that it deserves.

    Args:
        row: the row.
        tokens: how many; whole blocks.
        limit: bytes that all tiers may take, in slots of the counted tier; None: no limit.
    """
    size = row.open.codec.slots
    age = by_age(row.open.positions)
    rest = age[:, tokens : int(row.open.alive.sum(1).max())]
    fresh, fresh_worth = _ranked(row, age[:, :tokens])
    worths = [*(_sort_blocks(row, tier) for tier in row.tiers), fresh_worth]
    held = torch.cat([torch.full((len(w),), i) for i, w in enumerate(worths[:-1])]
                     + [torch.zeros(len(fresh_worth), dtype=torch.int64)])
    new = torch.arange(len(held)) >= len(held) - len(fresh_worth)
    chosen = _choose(row, torch.cat(worths), held, new, limit)
    moved = [_decoded(tier) for tier in row.tiers]
    moved.append(fresh)
    starts = [0, *torch.tensor([len(w) for w in worths]).cumsum(0).tolist()]
    for index, tier in enumerate(row.tiers):
        targets = chosen[starts[index] : starts[index + 1]]
        kept = (targets == index).nonzero()[:, 0]
        tier.keep(kept.expand(row.kv_heads, -1))
    for index, tier in enumerate(row.tiers):
        for source, slots in enumerate(moved):
            if source == index:
                continue
            targets = chosen[starts[source] : starts[source + 1]] == index
            if bool(targets.any()):
                _add(tier, slots.part(targets, size))
    row.open.pack(rest)


def _ranked(row: KVRow, slots: Tensor) -> tuple[_Slots, Tensor]:
    """Return open slots (kv_heads, tokens) in blocks of like rank, and the blocks' worth."""
    size = row.open.codec.slots
    worth = row.worth(row.open).gather(1, slots)
    order = worth.argsort(dim=1, descending=True, stable=True)
    slots = slots.gather(1, order)
    blocks = slots.view(row.kv_heads, -1, size)
    positions = row.open.positions.gather(1, slots).view_as(blocks)
    slots = blocks.gather(2, positions.argsort(2)).flatten(1)
    key, value = row.open.tokens(slots)
    columns = {
        name: column.gather(1, slots[: column.shape[0]])
        for name, column in row.open.columns.items()
    }
    ranked = worth.gather(1, order).view(row.kv_heads, -1, size)
    described = _Slots(key, value, row.open.positions.gather(1, slots), columns)
    return described, _importance(ranked).mean((0, 2))


def _sort_blocks(row: KVRow, tier: Shelf) -> Tensor:
    """Sort the blocks of each head by worth; return the worth of each rank (blocks,)."""
    shape = (row.kv_heads, tier.blocks, tier.codec.slots)
    worth = _importance(row.worth(tier)).view(shape).mean(2)
    order = worth.argsort(dim=1, descending=True, stable=True)
    tier.keep(order)
    return worth.gather(1, order).mean(0)


def _importance(worth: Tensor) -> Tensor:
    """Turn scores of any sign into weights: dead slots weigh nothing, scores below 0 under 1."""
    weights = torch.where(worth >= 0, worth, 1 / (1 - worth))
    return weights.masked_fill(worth == -torch.inf, 0.0).double()


def _choose(
    row: KVRow, worth: Tensor, held: Tensor, new: Tensor, limit: int | None
) -> Tensor:
    """Return the tier of each block (blocks,); one past the last tier means dropped."""
    assert row.sealed is not None
    tiers = row.tiers
    budget = float('inf') if limit is None else (
        limit // row.sealed.codec.slots * row.sealed.block_bytes
    )
    distortion = torch.tensor(DISTORTION).double()
    cost = torch.tensor([float(tier.block_bytes) for tier in tiers] + [0.0]).double()
    below = torch.arange(len(cost))[None] >= held[:, None]
    steady = torch.where(new, worth, worth / STEADINESS)

    def choice(mu: float) -> Tensor:
        loss = worth[:, None] * distortion + mu * cost
        stay = steady[:, None] * distortion + mu * cost
        picked = loss.masked_fill(~below, torch.inf).argmin(1)
        stays = stay.masked_fill(~below, torch.inf).argmin(1) == held
        return torch.where(stays & ~new, held, picked)

    low, high = 0.0, 1.0
    if cost[choice(low)].sum() <= budget:
        return choice(low)
    while cost[choice(high)].sum() > budget:
        high *= 16
    low = high * 1e-60
    for _ in range(ROUNDS * 3):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if cost[choice(middle)].sum() > budget else (low, middle)
    return choice(high)


def _decoded(tier: Shelf) -> _Slots:
    key, value = tier.raw()
    return _Slots(key, value, tier.positions, tier.columns)


def _add(tier: Shelf, slots: _Slots) -> None:
    first, size = tier.blocks, tier.codec.slots
    tier.extend(slots.positions.shape[1] // size)
    tier.fill(first, slots.key, slots.value, slots.positions, slots.columns)



# SPDX-License-Identifier: Apache-2.0
"""Which slots are worth most: exact counts per KV head, ties decided by position.

Knows numbers and positions; where the worth comes from is the business of a scorer.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

PINNED = 3e38
"""Worth of what must stay; more than any score."""
SINK = 2e38
RECENT = 1e38


def protect(
    worth: Tensor, positions: Tensor, seen: int, sinks: int, recent: int,
    pins: Sequence[tuple[int, int]],
) -> Tensor:
    """Raise the worth of what a policy protects; the dead are worth nothing.

    Args:
        worth: scores (kv_heads, slots).
        positions: (kv_heads, slots), negative where a slot is dead.
        seen: tokens so far; the newest has position ``seen - 1``.
        sinks: first positions that stay.
        recent: newest positions that stay.
        pins: first and last position + 1 of each span that must stay.
    """
    worth = worth.nan_to_num(0.0, RECENT / 2, -RECENT).clamp(-RECENT / 2, RECENT / 2)
    worth = worth.masked_fill(positions >= seen - recent, RECENT)
    worth = worth.masked_fill(positions < sinks, SINK)
    for first, end in pins:
        worth = worth.masked_fill((positions >= first) & (positions < end), PINNED)
    return worth.masked_fill(positions < 0, -torch.inf)


def best(worth: Tensor, positions: Tensor, count: int) -> Tensor:
    """Return the ``count`` best slots of each head (kv_heads, count), by ascending position.

    Among equals the later position wins.
    """
    latest = positions.argsort(1, descending=True)
    order = worth.gather(1, latest).argsort(dim=1, descending=True, stable=True)
    slots = latest.gather(1, order[:, :count])
    return slots.gather(1, positions.gather(1, slots).argsort(1))


def worst(worth: Tensor, positions: Tensor, count: int) -> Tensor:
    """Return the ``count`` worst live slots of each head (kv_heads, count); ties go to the first.

    Where a head has fewer live slots, the rest are dead ones.
    """
    alive_first = worth.masked_fill(positions < 0, torch.inf)
    if count == 1:
        ties = alive_first == alive_first.min(1, keepdim=True).values
        return positions.masked_fill(~ties, torch.iinfo(positions.dtype).max).argmin(1)[:, None]
    earliest = positions.argsort(dim=1, stable=True)
    order = alive_first.gather(1, earliest).argsort(dim=1, stable=True)
    return earliest.gather(1, order[:, :count])


def by_age(positions: Tensor) -> Tensor:
    """Return slots (kv_heads, slots) by ascending position, the dead last."""
    last = torch.iinfo(positions.dtype).max
    return positions.masked_fill(positions < 0, last).argsort(dim=1, stable=True)

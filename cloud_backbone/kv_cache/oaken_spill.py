# SPDX-License-Identifier: Apache-2.0
"""Which elements stay sparse when a page of Oaken has not enough room for all.

The inner ones give way first, those closest to the middle group before others; then the outer
ones, likewise. Slots that only fill up a block (copies of the slot before them, to the block's
end) get nothing then, or slots that are written later would find no room.

Knows no threshold.
"""

from __future__ import annotations

import torch
from torch import Tensor


def fit(wanted: Tensor, depth: Tensor, room: Tensor | int, x: Tensor) -> Tensor:
    """Choose the elements that stay sparse.

    Args:
        wanted: bool (kv_heads, blocks, slots, head_dim): outer and inner elements.
        depth: float32, same shape, as in ``Placement``.
        room: how many may stay in each block, (kv_heads, blocks) or one number.
        x: the elements themselves, to recognise copies.

    Returns:
        bool, as ``wanted``, with at most ``room`` elements in each block.
    """
    count = wanted.flatten(2).sum(-1)
    over = count > room
    if not bool(over.any()):
        return wanted
    room = torch.as_tensor(room, device=wanted.device).expand_as(count)[over]
    needed = wanted[over] & ~_padding(x[over])[..., None]
    harm = _harm(depth[over]).masked_fill(~needed, -1).flatten(1)
    order = harm.sort(dim=-1, descending=True, stable=True).indices
    ranks = torch.arange(order.shape[-1], device=order.device).expand_as(order)
    rank = torch.empty_like(order).scatter_(-1, order, ranks)
    kept = wanted.clone()
    kept[over] = needed & (rank < room[:, None]).view_as(needed)
    return kept


def _harm(depth: Tensor) -> Tensor:
    """Return what a move to the middle group costs: inner elements up to 1, outer ones above."""
    return torch.where(depth > 1, depth, depth.clamp(-1, 0).neg())


def _padding(x: Tensor) -> Tensor:
    """Return bool (blocks, slots): the run of copies at the end of (blocks, slots, head_dim)."""
    copies = (x[:, 1:] == x[:, :-1]).all(-1)
    run = copies.flip(-1).int().cumprod(-1).flip(-1).bool()
    return torch.cat([torch.zeros_like(x[:, :1, 0], dtype=torch.bool), run], -1)

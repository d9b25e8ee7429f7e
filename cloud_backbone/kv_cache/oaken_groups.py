# SPDX-License-Identifier: Apache-2.0
"""Oaken's groups: where elements belong, their codes, and back (see ``oaken`` for the equations).

Knows no page.
"""

from __future__ import annotations

from typing import NamedTuple

from cloud_backbone.kv_cache.oaken_edges import GroupEdges, LEAST
from cloud_backbone.kv_cache.oaken_page import SlotCodes, SparseCodes
from cloud_backbone.kv_cache.oaken_scale import decode_scale, encode_scale
import torch
from torch import Tensor

MIDDLE_CELLS, SPARSE_CELLS = 8, 16
"""Cells on each side, of elements that cost 4 bits and of those that cost more."""

HUGE = torch.finfo(torch.float32).max


class Placement(NamedTuple):
    """Where elements (kv_heads, blocks, slots, head_dim) lie."""

    upper: Tensor
    """bool: at or above the centre."""
    depth: Tensor
    """float32, in the middle group 0 to 1: from the inner threshold of its side to the outer."""

    @property
    def outer(self) -> Tensor:
        return self.depth > 1

    @property
    def inner(self) -> Tensor:
        return self.depth < 0


def _wide(per_head: Tensor) -> Tensor:
    """Return (kv_heads, 1, 1, 1) from (kv_heads,)."""
    return per_head[:, None, None, None]


def place(x: Tensor, edges: GroupEdges) -> Placement:
    """Find the side and the group of elements (kv_heads, blocks, slots, head_dim)."""
    depth = x - _wide(edges.centre)
    upper = depth >= 0
    low, high = (1 / edges.width).unbind(-1)
    # Arithmetic in place of torch.where, which is slow where it broadcasts.
    per_width = torch.addcmul(_wide(low), upper.float(), _wide(high - low))
    return Placement(upper, depth.abs_().sub_(_wide(edges.half)).mul_(per_width))


def quantize(x: Tensor, edges: GroupEdges, placement: Placement, sparse: Tensor) -> SlotCodes:
    """Encode elements; the ``sparse`` ones keep their group, all others go to the middle."""
    middle = placement.depth.clamp_min(0).masked_fill_(sparse, 0)
    # Few elements are sparse: they are picked out.
    where = sparse.flatten().nonzero().squeeze(-1)
    row = where // x.shape[-1]
    head = row // max(x.shape[1] * x.shape[2], 1)
    beyond = (placement.depth.flatten()[where] - 1).clamp_min_(0)
    peak = torch.zeros_like(x[..., 0]).flatten().scatter_reduce_(0, row, beyond, 'amax')
    scale = encode_scale(torch.stack([middle.amax(-1), peak.view_as(x[..., 0])], -1))
    exact = decode_scale(scale)

    upper = placement.upper.to(torch.uint8)
    nibble = _cell(middle, exact[..., :1], MIDDLE_CELLS) | upper << 3
    inside = (x.flatten()[where] - edges.centre[head]).abs_()
    nibble.view(-1)[where] = torch.where(
        beyond > 0,
        _cell(beyond, exact[..., 1].flatten()[row], SPARSE_CELLS),
        _cell(inside, edges.half[head], SPARSE_CELLS),
    )
    mark = torch.zeros_like(nibble)
    mark.view(-1)[where] = 1 + (beyond > 0).to(torch.uint8) + 2 * upper.flatten()[where]
    return SlotCodes(nibble, mark, scale)


def _cell(distance: Tensor, peak: Tensor, cells: int) -> Tensor:
    """Return uint8: which of the equal cells between 0 and the peak holds each distance."""
    per_cell = cells / peak.clamp_min(LEAST)
    return (distance * per_cell).clamp_(0, cells - 1).to(torch.uint8)


def dequantize_middle(nibble: Tensor, scale: Tensor, edges: GroupEdges) -> Tensor:
    """Return float32 as if all elements were of the middle group; scale as decoded."""
    level = (torch.arange(MIDDLE_CELLS, device=nibble.device) + 0.5) / MIDDLE_CELLS
    sides = edges.width.new_tensor([[-1], [1]])
    step = (edges.width[..., None] * sides * level).flatten(1)
    near = (edges.half[:, None, None] * sides).expand(-1, -1, MIDDLE_CELLS).flatten(1)
    begin = edges.centre[:, None] + near
    # One small table a slot; a gather is several times faster than arithmetic on each element.
    table = torch.addcmul(begin[:, None, None], step[:, None, None], scale[..., :1])
    return table.clamp_(-HUGE, HUGE).gather(-1, nibble.long())


def dequantize_sparse(
    codes: SparseCodes, nibble: Tensor, scale: Tensor, edges: GroupEdges
) -> Tensor:
    """Return float32 (elements,); nibbles and scales are those of all slots."""
    # By kind, 0 to 3: inner low, outer low, inner high, outer high.
    centre, half, (low, high) = edges.centre, edges.half, edges.width.unbind(-1)
    begin = torch.stack([centre, centre - half - low, centre, centre + half + high], -1)
    step = torch.stack([-half, -low, half, high], -1)
    # Again a small table a slot: picking from it costs less than finding scale and head of each.
    shape = (*scale.shape[:-1], 4)
    begins, steps = (each[:, None, None].expand(shape).clone() for each in (begin, step))
    steps[..., 1::2] *= scale[..., 1:]
    entry = codes.kind.long().add_(codes.row, alpha=4)
    level = nibble.view(-1).index_select(0, codes.where).float().add_(0.5).div_(SPARSE_CELLS)
    level.mul_(steps.view(-1).index_select(0, entry))
    return level.add_(begins.view(-1).index_select(0, entry)).clamp_(-HUGE, HUGE)

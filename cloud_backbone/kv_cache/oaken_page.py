# SPDX-License-Identifier: Apache-2.0
"""The page of Oaken: a dense plane of half bytes, and one more byte for each sparse element.

    half bytes  uint8[slots, head_dim / 2]   low half: channel j, high half: j + head_dim / 2
    scales      uint8[slots, 2]              middle group, outer group; see ``oaken_scale``
    counts      uint8[slots, chunks]         sparse elements of each chunk of 64 channels
    sparse      uint8[capacity]              by slot and channel, without gaps

    sparse byte = channel within its chunk | outer << 6 | upper side << 7

Where a chunk's sparse bytes begin is the running sum of the counts. The paper's memory unit holds
dense and sparse data in separate pages, with a start and a length for each token. Here both share
a page of fixed size, for any codec's pages come from one pool; the counts are that table. Fixed
size means a fixed capacity, so some elements may have to do without (see ``oaken_spill``).

Any bytes at all unpack to something valid. Knows no threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from cloud_backbone.kv_cache.codec import check_shape
import torch
from torch import Tensor
import torch.nn.functional as F

CHUNK = 64
"""Channels that six bits can tell apart."""


class SlotCodes(NamedTuple):
    """Codes of whole blocks, not packed."""

    nibble: Tensor
    """uint8 (kv_heads, blocks, slots, head_dim), 0 to 15."""
    mark: Tensor
    """uint8, same shape: 0 = middle group, else 1 + outer + 2 * upper side."""
    scale: Tensor
    """uint8 (kv_heads, blocks, slots, 2)."""


class SparseCodes(NamedTuple):
    """The sparse elements of some pages (elements,), in order of pages, slots and channels."""

    row: Tensor
    """int64: which of (kv_heads, blocks, slots), counted through."""
    where: Tensor
    """int64: which of (kv_heads, blocks, slots, head_dim), counted through."""
    kind: Tensor
    """uint8: outer + 2 * upper side."""


@dataclass(frozen=True)
class OakenPage:
    """Sizes of a page, and the way in and out of it."""

    slots: int
    head_dim: int
    share: float = 0.125
    """Sparse bytes for each element of the page; rounded up, then until 4 divides the page."""

    def __post_init__(self) -> None:
        check_shape(self.head_dim, self.slots)
        if not 0 <= self.share <= 1:
            raise ValueError(f'the sparse share of a page is 0 to 1, not {self.share}')

    @property
    def chunks(self) -> int:
        return ceil(self.head_dim / CHUNK)

    @property
    def _offsets(self) -> tuple[int, int, int]:
        scales = self.slots * self.head_dim // 2
        counts = scales + self.slots * 2
        return scales, counts, counts + self.slots * self.chunks

    @property
    def capacity(self) -> int:
        """Sparse elements that fit."""
        wanted = ceil(self.slots * self.head_dim * self.share)
        return wanted + -(self._offsets[-1] + wanted) % 4

    @property
    def nbytes(self) -> int:
        """Bytes of a page [B]."""
        return self._offsets[-1] + self.capacity

    def pack(self, codes: SlotCodes) -> Tensor:
        """Return uint8 (kv_heads, blocks, nbytes); at most ``capacity`` marks in each page."""
        low, high = codes.nibble.chunk(2, -1)
        marked = codes.mark > 0
        counts = self._chunked(marked).sum(-1)
        planes = (low | high << 4, codes.scale, counts.to(torch.uint8))
        flat = [plane.flatten(2) for plane in planes]
        return torch.cat([*flat, self._pack_sparse(codes.mark, marked, counts)], -1)

    def _chunked(self, marked: Tensor) -> Tensor:
        """Return (kv_heads, blocks, slots, chunks, channels of a chunk)."""
        if self.chunks > 1:
            marked = F.pad(marked, (0, self.chunks * CHUNK - self.head_dim))
        return marked.unflatten(-1, (self.chunks, -1))

    def _pack_sparse(self, mark: Tensor, marked: Tensor, counts: Tensor) -> Tensor:
        where = marked.flatten().nonzero().squeeze(-1)
        channel = where % self.head_dim % CHUNK
        byte = (mark.flatten()[where] - 1 << 6) | channel.to(torch.uint8)
        used = counts.flatten(2).sum(-1)
        sparse = mark.new_zeros(*used.shape, self.capacity)
        sparse[torch.arange(self.capacity, device=mark.device) < used[..., None]] = byte
        return sparse

    def unpack(self, pages: Tensor) -> SlotCodes:
        nibble = self.nibbles(pages)
        mark = torch.zeros_like(nibble)
        found = self.sparse(pages)
        mark.view(-1)[found.where] = found.kind + 1
        return SlotCodes(nibble, mark, self.scales(pages))

    def nibbles(self, pages: Tensor) -> Tensor:
        """Return uint8 (kv_heads, blocks, slots, head_dim)."""
        dense = pages[..., : self._offsets[0]].unflatten(-1, (self.slots, -1))
        out = dense.new_empty(*dense.shape[:-1], self.head_dim)
        torch.bitwise_and(dense, 15, out=out[..., : self.head_dim // 2])
        torch.bitwise_right_shift(dense, 4, out=out[..., self.head_dim // 2 :])
        return out

    def scales(self, pages: Tensor) -> Tensor:
        """Return uint8 (kv_heads, blocks, slots, 2)."""
        return pages[..., self._offsets[0] : self._offsets[1]].unflatten(-1, (self.slots, 2))

    def sparse(self, pages: Tensor) -> SparseCodes:
        """Find the sparse elements of all pages, in order."""
        counts = pages[..., self._offsets[1] : self._offsets[2]].int()
        # Bytes that were never written must not count beyond the page.
        ends = counts.cumsum(-1).clamp_(max=self.capacity)
        counts = ends.diff(dim=-1, prepend=ends.new_zeros(*ends.shape[:-1], 1)).flatten()
        held = torch.arange(self.capacity, device=pages.device) < ends[..., -1:]
        byte = pages[..., self._offsets[2] :][held]
        channel = (byte & 63).long()
        row = torch.arange(len(counts), device=pages.device).repeat_interleave(counts)
        if self.chunks > 1:
            channel += row % self.chunks * CHUNK
            row = row // self.chunks
        channel.clamp_(max=self.head_dim - 1)
        return SparseCodes(row, channel.add_(row, alpha=self.head_dim), byte >> 6)

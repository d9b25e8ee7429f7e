# SPDX-License-Identifier: Apache-2.0
"""Oaken for the keys alone, or for the values alone, of one layer of one session.

Joins groups (``oaken_groups``), spilling (``oaken_spill``) and pages (``oaken_page``).
"""

from __future__ import annotations

from copy import copy
from dataclasses import astuple

from cloud_backbone.kv_cache.errors import CalibrationError
from cloud_backbone.kv_cache.oaken_drift import GroupCounts
from cloud_backbone.kv_cache.oaken_edges import GroupEdges, OakenShares
from cloud_backbone.kv_cache.oaken_groups import (
    dequantize_middle,
    dequantize_sparse,
    place,
    quantize,
)
from cloud_backbone.kv_cache.oaken_page import OakenPage, SlotCodes
from cloud_backbone.kv_cache.oaken_scale import decode_scale
from cloud_backbone.kv_cache.oaken_spill import fit
import torch
from torch import Tensor


class OakenSide:
    """Encodes and decodes; learns thresholds from what it first encodes if it has none."""

    def __init__(self, page: OakenPage, edges: GroupEdges | None, shares: OakenShares) -> None:
        self.page, self.edges, self.counts = page, edges, GroupCounts()
        self._shares, self._shared = shares, edges is not None

    def nbytes(self) -> int:
        """Bytes of thresholds that are this session's own [B]."""
        return 0 if self._shared or self.edges is None else self.edges.nbytes()

    def learned_bytes(self, kv_heads: int) -> int:
        """Bytes of thresholds once they are known [B]."""
        return 0 if self._shared else GroupEdges.HEAD_BYTES * kv_heads

    def tensors(self) -> dict[str, Tensor]:
        """Return thresholds, where there are some, and counts."""
        counts = {'counts': torch.tensor(astuple(self.counts), dtype=torch.int64)}
        return counts if self.edges is None else {**counts, 'edges': self.edges.edges}

    def load(self, edges: Tensor | None, counts: Tensor) -> None:
        """Take back what ``tensors`` returned.

        Raises:
            CalibrationError: shared thresholds are not those that were in use.
        """
        if not self._shared:
            self.edges = None if edges is None else GroupEdges(edges.clone())
        elif edges is None or not torch.equal(self._checked(edges).edges, edges):
            raise CalibrationError(
                'the pages were made with other thresholds than those of this model'
            )
        self.counts = GroupCounts(*counts.tolist())

    def fork(self) -> OakenSide:
        """Return a side that counts alone; thresholds are never changed."""
        twin = copy(self)
        twin.counts = copy(self.counts)
        return twin

    def encode(self, x: Tensor) -> Tensor:
        """Return the pages of (kv_heads, blocks * slots, head_dim)."""
        blocks = x.float().unflatten(1, (x.shape[1] // self.page.slots, self.page.slots))
        if not x.numel():
            return torch.zeros(len(x), 0, self.page.nbytes, dtype=torch.uint8, device=x.device)
        edges = self._learned(x)
        every = torch.ones_like(blocks[:1, :1, :1, :1], dtype=torch.bool)
        self.counts.elements += x.numel()
        return self.page.pack(self._codes(blocks, edges, every, self.page.capacity))

    def write(self, pages: Tensor, mask: Tensor, x: Tensor) -> Tensor:
        """Overwrite the masked slots; all others keep their codes."""
        pages = pages.clone()
        touched = mask.any(-1).any(0)
        if bool(touched.any()):
            pages[:, touched] = self._rewrite(
                pages[:, touched], mask[:, touched, :, None], x[:, touched].float()
            )
        return pages

    def _rewrite(self, pages: Tensor, mask: Tensor, x: Tensor) -> Tensor:
        x = x.masked_fill(~mask, 0)
        edges = self._learned(x[:, mask[..., 0].any(0)] if self.edges is None else x)
        old = self.page.unpack(pages)
        taken = (old.mark.bool() & ~mask).flatten(2).sum(-1)
        self.counts.elements += int(mask.sum()) * x.shape[-1]
        new = self._codes(x, edges, mask, self.page.capacity - taken)
        merged = [torch.where(mask, a, b) for a, b in zip(new, old, strict=True)]
        return self.page.pack(SlotCodes(*merged))

    def _codes(self, x: Tensor, edges: GroupEdges, mask: Tensor, room: Tensor | int) -> SlotCodes:
        """Encode (kv_heads, blocks, slots, head_dim); slots outside the mask do not count."""
        placement = place(x, edges)
        outer, inner = placement.outer & mask, placement.inner & mask
        sparse = fit(outer | inner, placement.depth, room, x)
        self.counts.outer += int(outer.sum())
        self.counts.inner += int(inner.sum())
        self.counts.kept += int(sparse.sum())
        return quantize(x, edges, placement, sparse)

    def decode(self, pages: Tensor) -> Tensor:
        """Return float32 (kv_heads, blocks * slots, head_dim)."""
        if not pages.numel():
            return torch.zeros(len(pages), 0, self.page.head_dim, device=pages.device)
        edges = self._checked(pages)
        nibble, scale = self.page.nibbles(pages), decode_scale(self.page.scales(pages))
        out = dequantize_middle(nibble, scale, edges)
        sparse = self.page.sparse(pages)
        out.view(-1)[sparse.where] = dequantize_sparse(sparse, nibble, scale, edges)
        return out.flatten(1, 2)

    def _learned(self, x: Tensor) -> GroupEdges:
        if self.edges is None:
            self.edges = GroupEdges.from_samples(x, self._shares)
        return self._checked(x)

    def _checked(self, x: Tensor) -> GroupEdges:
        if self.edges is None:
            raise CalibrationError('pages are read before any thresholds are known')
        if len(self.edges) != len(x):
            raise CalibrationError(
                f'thresholds are for {len(self.edges)} KV heads, the layer has {len(x)}'
            )
        return self.edges

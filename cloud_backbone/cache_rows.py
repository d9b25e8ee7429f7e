# SPDX-License-Identifier: Apache-2.0
"""Caches of several sessions as one batch: joined with padding, grown together, parted again.

A lone session is not copied: its own cache grows in place, so that any cache class of
transformers serves there. Padding stands on the left of each chunk and is masked.
Knows tensors of keys and values; knows no model, no plan and no session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache


def keep_first(cache: Cache, tokens: int) -> None:
    """Drop all but the first ``tokens`` of a cache."""
    surplus = cache.get_seq_length() - tokens
    if surplus > 0:
        # A negative count means "remove" in every version of the library; a positive one does not.
        cache.crop(-surplus)


class CacheRows:
    """One cache per row; ``append`` says which slots a chunk may look at.

    Slots are columns of the joint cache; a token's position in its sequence is counted apart.
    """

    def __init__(self, caches: Sequence[Cache]) -> None:
        self.lengths = [cache.get_seq_length() for cache in caches]
        self._alone = len(caches) == 1
        slots = max(self.lengths)
        self._filled = torch.zeros(len(caches), slots, dtype=torch.bool)  # (batch, slots)
        for row, length in enumerate(self.lengths):
            self._filled[row, slots - length :] = True
        self.cache = caches[0] if self._alone else _join(caches, slots)

    def append(self, chunks: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor, Tensor | None]:
        """Lay out the next tokens of each row; an empty chunk leaves its row as it is.

        Returns:
            tokens (batch, tokens), positions (batch, tokens), mask (batch, 1, tokens, slots).
        """
        width = max(len(chunk) for chunk in chunks)
        tokens = torch.zeros(len(chunks), width, dtype=torch.long)
        positions = torch.zeros(len(chunks), width, dtype=torch.long)
        fresh = torch.zeros(len(chunks), width, dtype=torch.bool)
        for row, chunk in enumerate(chunks):
            if not chunk:
                continue
            start = self.lengths[row]
            tokens[row, -len(chunk) :] = torch.tensor(chunk)
            positions[row, -len(chunk) :] = torch.arange(start, start + len(chunk))
            fresh[row, -len(chunk) :] = True
            self.lengths[row] += len(chunk)
        before = self._filled
        self._filled = torch.cat([before, fresh], 1)
        if self._alone and (width == 1 or before.shape[1] == 0):
            return tokens, positions, None
        return tokens, positions, _mask(before, fresh)

    def retract(self, row: int, tokens: int) -> None:
        """Take back the last tokens of a row; they must be of its last chunk."""
        if tokens == 0:
            return
        self.lengths[row] -= tokens
        if self._alone:
            keep_first(self.cache, self.lengths[row])
            self._filled = self._filled[:, : self.lengths[row]]
        else:
            self._filled[row, -tokens:] = False

    def part(self) -> list[Cache]:
        """Return each row's cache without padding."""
        if self._alone:
            return [self.cache]
        return [self._row(row) for row in range(len(self.lengths))]

    def _row(self, row: int) -> Cache:
        cache = DynamicCache()
        slots = self._filled[row].nonzero()[:, 0]
        layers: list[Any] = self.cache.layers
        for index, layer in enumerate(layers):
            places = slots.to(layer.keys.device)
            keys = layer.keys[row : row + 1].index_select(2, places)
            values = layer.values[row : row + 1].index_select(2, places)
            cache.update(keys, values, index)
        return cache


def _mask(before: Tensor, fresh: Tensor) -> Tensor:
    """Return who looks at whom: real slots that came before, and always oneself."""
    batch, width = fresh.shape
    past = before[:, None, :].expand(batch, width, before.shape[1])
    causal = torch.ones(width, width, dtype=torch.bool).tril()
    # A padding token looks at itself: a row of a mask without any True gives NaN.
    own = (causal & fresh[:, None, :]) | torch.eye(width, dtype=torch.bool)
    return torch.cat([past, own], 2)[:, None]  # (batch, 1, tokens, slots)


def _join(caches: Sequence[Cache], slots: int) -> Cache:
    joint = DynamicCache()
    rows: list[list[Any]] = [cache.layers if cache.get_seq_length() else [] for cache in caches]
    full = max(rows, key=len)
    for index, example in enumerate(full):
        keys = [_pad(row[index].keys if row else None, slots, example.keys) for row in rows]
        values = [_pad(row[index].values if row else None, slots, example.values) for row in rows]
        joint.update(torch.cat(keys), torch.cat(values), index)
    return joint


def _pad(states: Tensor | None, slots: int, example: Tensor) -> Tensor:
    """Return keys or values (1, heads, slots, head_dim), zeros on the left."""
    _, heads, _, size = example.shape
    padded = example.new_zeros(1, heads, slots, size)
    if states is not None and states.shape[2]:
        padded[:, :, slots - states.shape[2] :] = states
    return padded

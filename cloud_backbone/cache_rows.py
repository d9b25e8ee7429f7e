# SPDX-License-Identifier: Apache-2.0
"""Caches of several sessions as one batch: each row goes on in its own session, nothing is copied.

A lone session's cache may be any that transformers knows; a batch needs compressed ones. Rows
whose new tokens are fewer are padded on the left; padding enters no cache. Knows no model, no
plan and no instruction.
"""

from __future__ import annotations

from collections.abc import Sequence

from cloud_backbone.kv_cache.compressed_cache import CompressedCache
from cloud_backbone.kv_cache.errors import BudgetError, EvictedError
from cloud_backbone.kv_cache.kv_session import KVSession
import torch
from torch import Tensor
from transformers.cache_utils import Cache


def length_of(cache: Cache) -> int:
    """Count the tokens of a cache, also those that came in while it was a row of a batch."""
    if isinstance(cache, CompressedCache):
        cache.align()
    return int(cache.get_seq_length())


def keep_first(cache: Cache, tokens: int) -> None:
    """Drop all but the first ``tokens`` of a cache."""
    surplus = length_of(cache) - tokens
    if surplus > 0:
        # A negative count means "remove" in every version of the library; a positive one does not.
        cache.crop(-surplus)


def commit(cache: Cache) -> None:
    """Let the policy of each session drop and encode what is due."""
    if isinstance(cache, CompressedCache):
        for session in cache.sessions:
            if not session.policy.lossless:
                session.commit()


def intact(cache: Cache) -> int:
    """Count the first tokens that a cache holds without a gap; let go of what was pinned."""
    if not isinstance(cache, CompressedCache) or cache.policy.lossless:
        return length_of(cache)
    session = cache.begin()
    session.pins.clear()
    return session.intact()


class CacheRows:
    """One session per row; ``append`` says whom the new tokens of a chunk may look at.

    Columns of a mask are positions of the past, as many as the longest row has, then new tokens.
    """

    def __init__(self, caches: Sequence[Cache]) -> None:
        self.lengths = [length_of(cache) for cache in caches]
        self._alone = len(caches) == 1
        self.cache = caches[0] if self._alone else CompressedCache.joined(caches)

    def append(self, chunks: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor, Tensor | None]:
        """Lay out the next tokens of each row; an empty chunk leaves its row as it is.

        Returns:
            tokens (batch, tokens), positions (batch, tokens), mask (batch, 1, tokens, columns).
        """
        width = max(len(chunk) for chunk in chunks)
        tokens = torch.zeros(len(chunks), width, dtype=torch.long)
        positions = torch.zeros(len(chunks), width, dtype=torch.long)
        fresh = torch.zeros(len(chunks), width, dtype=torch.bool)
        before = list(self.lengths)
        for row, chunk in enumerate(chunks):
            if not chunk:
                continue
            start = self.lengths[row]
            tokens[row, -len(chunk) :] = torch.tensor(chunk)
            positions[row, -len(chunk) :] = torch.arange(start, start + len(chunk))
            fresh[row, -len(chunk) :] = True
            self.lengths[row] += len(chunk)
        plain = self._alone and (width == 1 or before == [0])
        return tokens, positions, None if plain else _mask(before, fresh)

    def retract(self, row: int, tokens: int) -> None:
        """Take back the last tokens of a row; they must be of its last chunk."""
        if tokens == 0:
            return
        self.lengths[row] -= tokens
        if self._alone:
            keep_first(self.cache, self.lengths[row])
        else:
            self.cache.sessions[row].crop(self.lengths[row])

    def ranks(self, row: int) -> bool:
        """Say whether the policy of a row ranks tokens by what is looked at."""
        if not isinstance(self.cache, CompressedCache):
            return False
        scorer = self.cache.sessions[row].policy.scorer
        return scorer is not None and scorer.reads != 'nothing'

    def align(self) -> None:
        """Be ready for the next chunk, after rows took tokens back."""
        if not self._alone:
            self.cache.align()

    def commit(self, vital: Sequence[Sequence[tuple[int, int]]]) -> None:
        """Let the policies drop and encode what is due, now that no token is taken back.

        Args:
            vital: spans of each row that are kept before all else.
        """
        if isinstance(self.cache, CompressedCache):
            for session, spans in zip(self.cache.sessions, vital, strict=True):
                _pin(session, spans)
        commit(self.cache)


def _pin(session: KVSession, spans: Sequence[tuple[int, int]]) -> None:
    """Pin what is vital and nothing else, where it is there and fits; else all is ranked."""
    session.pins.clear()
    for span in () if session.policy.lossless else spans:
        try:
            session.pin(*span)
        except (BudgetError, EvictedError):
            continue


def _mask(before: Sequence[int], fresh: Tensor) -> Tensor:
    """Return who looks at whom: all that came before in its row, new tokens up to itself."""
    width = fresh.shape[1]
    past = torch.arange(max(before)) < torch.tensor(before)[:, None]  # (batch, columns)
    causal = torch.ones(width, width, dtype=torch.bool).tril()
    own = causal & fresh[:, None, :]
    return torch.cat([past[:, None, :].expand(-1, width, -1), own], 2)[:, None]

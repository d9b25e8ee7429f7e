# SPDX-License-Identifier: Apache-2.0
"""The cache that transformers models take: one session per batch row, any policy, any budget.

Layers with a sliding window keep the library's own class, which is bounded already. The model
must attend through it: ``hook.attach(model)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.kv_session import KVSession
from cloud_backbone.kv_cache.kv_store import KVStore
from cloud_backbone.kv_cache.policy import find_policy, Policy
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

DEFAULT_POOL_BYTES = 8 << 30
"""Capacity of a cache's own pool [B]; memory is taken page by page."""


class CompressedCache(Cache):  # type: ignore[misc]
    """Keys and values of a batch under one policy.

    Args:
        config: of the model.
        policy: a name (``policy.policy_names()``) or a policy.
        budget_bytes: the most that each session takes [B]; None: no limit.
        slots: instead of bytes, the mean number of slots of a layer.
        pool: where pages come from; by default the cache has its own.
        sessions: sessions to go on with, one per batch row.
    """

    def __init__(
        self, config: Any, policy: str | Policy = 'full', budget_bytes: int | None = None,
        slots: int | None = None, pool: BlockPool | None = None,
        sessions: Sequence[KVSession] = (),
    ) -> None:
        self.policy = find_policy(policy) if isinstance(policy, str) else policy
        self.pool = pool or BlockPool(DEFAULT_POOL_BYTES)
        self._budget = {'budget_bytes': budget_bytes, 'slots': slots}
        self._config = config
        self.sessions: list[KVSession] = list(sessions)
        layers: list[Any] = [
            KVStore(index, self) if type(layer) is DynamicLayer else layer
            for index, layer in enumerate(DynamicCache(config=config).layers)
        ]
        self._kept = [layer.layer for layer in layers if isinstance(layer, KVStore)]
        if not self._kept:
            raise CacheError('no layer of this model has full attention: nothing to compress')
        super().__init__(layers=layers)
        self.align()

    @classmethod
    def joined(cls, caches: Sequence[CompressedCache]) -> CompressedCache:
        """Return a cache whose rows are the sessions of several caches of one model."""
        first = caches[0]
        sessions = [session for cache in caches for session in cache.sessions]
        return cls(first._config, first.policy, pool=first.pool, sessions=sessions)

    def begin(self) -> KVSession:
        """Return the session of a cache of one sequence, before its first token if need be."""
        (session,) = self.sessions_of(1)
        return session

    def fork(self) -> CompressedCache:
        """Return a cache with the same sessions; pages are shared until one side writes.

        Layers that are the library's own begin empty.
        """
        sessions = [session.fork() for session in self.sessions]
        twin = type(self)(self._config, self.policy, pool=self.pool, sessions=sessions)
        twin._budget = dict(self._budget)
        return twin

    def align(self) -> None:
        """Count columns anew: as many as the longest session has tokens.

        Sessions may have grown in another cache, or been cropped one by one.
        """
        columns = max((len(session) for session in self.sessions), default=0)
        for layer in self.layers:
            if isinstance(layer, KVStore):
                layer.go_on(len(self.sessions), columns)

    def nbytes(self) -> int:
        """Bytes of every tensor of all sessions and of the library's own layers [B]."""
        others = [layer for layer in self.layers if not isinstance(layer, KVStore)]
        own = [part for layer in others for part in (layer.keys, layer.values)
               if part is not None]
        return sum(session.nbytes() for session in self.sessions) + sum(t.nbytes for t in own)

    def close(self) -> None:
        """Give every page back."""
        for session in self.sessions:
            session.close()
        self.sessions.clear()

    def reset(self) -> None:
        """Begin anew with the same budget."""
        super().reset()
        self.close()

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Let each batch row go on from another one, as beam search asks."""
        super().reorder_cache(beam_idx)
        self._rearrange(beam_idx.tolist())

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep some batch rows."""
        super().batch_select_indices(indices)
        self._rearrange(indices.tolist())

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat each batch row."""
        super().batch_repeat_interleave(repeats)
        self._rearrange([row for row in range(len(self.sessions)) for _ in range(repeats)])

    def _rearrange(self, rows: Sequence[int]) -> None:
        old = self.sessions
        if not old:
            return
        self.sessions = [
            old[row] if row not in rows[:place] else old[row].fork()
            for place, row in enumerate(rows)
        ]
        for row, session in enumerate(old):
            if row not in rows:
                session.close()
        for layer in self.layers:
            if isinstance(layer, KVStore):
                layer.go_on(len(rows), layer.columns)

    def abandon(self) -> None:
        """Close all sessions after a failure in the middle of a forward; they can begin anew."""
        for session in self.sessions:
            session.close()
        super().reset()

    def sessions_of(self, batch: int) -> Sequence[KVSession]:
        """Return the session of each batch row; they are made with the first tokens.

        Raises:
            CacheError: the cache holds another number of sequences.
        """
        if not self.sessions:
            self.sessions = [
                KVSession(self.pool, self.policy, self._kept, **self._budget)
                for _ in range(batch)
            ]
        if len(self.sessions) != batch:
            raise CacheError(
                f'the cache holds {len(self.sessions)} sequences, the batch has {batch}'
            )
        return self.sessions


def tentative_cache(
    config: Any, pool: BlockPool, policy: Policy, budget_bytes: int | None
) -> CompressedCache:
    """Return an empty cache of one session whose new tokens can be taken back until committed."""
    cache = CompressedCache(config, policy, budget_bytes, pool=pool)
    cache.begin().tentative = True
    return cache

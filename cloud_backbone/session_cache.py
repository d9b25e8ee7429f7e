# SPDX-License-Identifier: Apache-2.0
"""The key-value cache that one session keeps between single questions, and its tokens.

Grows by appending and shrinks by cropping its end; what a policy drops or encodes in between is
the policy's business. Knows no model and no plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cloud_backbone.action_plan import Certificate, Exactness
from cloud_backbone.cache_policies import FULL
from cloud_backbone.cache_rows import commit, intact, keep_first, length_of
from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import CompressedCache, DEFAULT_POOL_BYTES
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.model.backbone import Backbone, Prompt
from cloud_backbone.prompt_segments import hash_of
from cloud_backbone.turn_cache import Sight
from transformers.cache_utils import Cache


class SessionCache:
    """Keys and values of ``tokens``.

    Args:
        pool: where memory comes from; None: a pool of its own.
        policy: how tokens are kept; by default as they are.
        budget_bytes: the most that is kept between turns [B]; None: no limit.
    """

    def __init__(
        self, pool: BlockPool | None = None, policy: Policy | None = None,
        budget_bytes: int | None = None,
    ) -> None:
        self.pool = pool or BlockPool(DEFAULT_POOL_BYTES)
        self.policy, self.budget_bytes = policy or FULL, budget_bytes
        self.byte_count = 0
        """Bytes that are kept since the last turn [B]."""
        self._cache: Cache | None = None
        self._tokens: tuple[int, ...] = ()
        self._stable = 0
        self._prefix_hash = ''
        self.last_text = ''
        """What was last written for this very instruction, if anything."""

    def open(self, backbone: Backbone) -> Cache:
        """Return the cache; its first use makes it."""
        if self._cache is None:
            self._cache = backbone.new_cache(self.pool, self.policy, self.budget_bytes)
        return self._cache

    def clear(self) -> None:
        """Forget everything, for example after an error in the middle of a turn."""
        if isinstance(self._cache, CompressedCache):
            self._cache.close()
        self._cache, self._tokens, self._stable = None, (), 0
        self.byte_count, self.last_text = 0, ''

    def reuse(self, prompt: Prompt, sight: Sight | None = None) -> int:
        """Crop to the tokens that this prompt begins with; return how many are left.

        Tokens that depend on an image are never reused: another image has the same tokens. Nor
        are those behind one that the policy has dropped.
        """
        held = 0 if self._cache is None else intact(self._cache)
        limit = min(self._stable, prompt.stable, held)
        shared = 0
        while shared < limit and self._tokens[shared] == prompt.tokens[shared]:
            shared += 1
        if shared < prompt.stable or self._stable != prompt.stable:
            self.last_text = ''
        if self._cache is not None:
            keep_first(self._cache, shared)
        self._tokens = self._tokens[:shared]
        return shared

    def hold(self, prompt: Prompt, tokens: Sequence[int], sight: Sight, text: str) -> None:
        """Keep what the cache holds now: exactly these tokens, the prompt's first.

        What the policy does not keep goes now.
        """
        assert self._cache is not None, 'hold before open'
        held = length_of(self._cache)
        assert held == len(tokens), f'cache holds {held} tokens, told {len(tokens)}'
        commit(self._cache)
        self._tokens, self._stable = tuple(tokens), prompt.stable
        self._prefix_hash = hash_of(prompt, tokens, sight)
        self.last_text = text
        self.byte_count = _bytes_of(self._cache)

    def certificate(self, sight: Sight) -> Certificate:
        """Say what an answer that was just held rests on: the one image, and the policy."""
        exactness = Exactness.NUMERIC if self.policy.lossless else Exactness.APPROXIMATE
        return Certificate(sight.epoch, sight.epoch, exactness, self._prefix_hash)

    @property
    def stable(self) -> int:
        """Count the tokens that no image fed."""
        return min(self._stable, len(self._tokens))

    def __len__(self) -> int:
        """Count the tokens held."""
        return len(self._tokens)


def _bytes_of(cache: Cache) -> int:
    """Return the bytes of every tensor of a cache [B]."""
    if isinstance(cache, CompressedCache):
        return cache.nbytes()
    layers: list[Any] = cache.layers
    # Layers that keep no keys (linear attention) have no such attributes.
    owned = [getattr(layer, name, None) for layer in layers for name in ('keys', 'values')]
    return sum(part.numel() * part.element_size() for part in owned if part is not None)

# SPDX-License-Identifier: Apache-2.0
"""A compressed cache whose tokens outlive a forward that failed.

Whoever runs the forward takes the half-finished tokens back (``HeldCache.all_or_nothing``).
"""

from __future__ import annotations

from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import CompressedCache
from cloud_backbone.kv_cache.policy import Policy


class KeptCache(CompressedCache):
    """A compressed cache of one session."""

    def abandon(self) -> None:
        """Leave the session as it is, some layers with tokens that others lack."""

    @classmethod
    def tentative(
        cls, config: Any, pool: BlockPool, policy: Policy, budget_bytes: int | None
    ) -> KeptCache:
        """Return an empty cache whose new tokens can be taken back until committed."""
        cache = cls(config, policy, budget_bytes, pool=pool)
        cache.begin().tentative = True
        return cache

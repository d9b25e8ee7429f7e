# SPDX-License-Identifier: Apache-2.0
"""What the sessions of one model need of a cache, measured once at the start.

Knows a model's interface and sizes; knows no session and no configuration.
"""

from __future__ import annotations

from dataclasses import dataclass

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.byte_budget import fixed_bytes
from cloud_backbone.kv_cache.compressed_cache import CompressedCache
from cloud_backbone.kv_cache.kv_row import KVRow
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.model.backbone import Backbone
from cloud_backbone.plan_grammar import compose, PlanDraft
from cloud_backbone.plan_vocabulary import Thing
from cloud_backbone.session_cache import SessionCache
import torch

USUAL_INSTRUCTION = 'put the red cube in the blue bin'
USUAL_PLAN = PlanDraft(
    'steps', Thing('red', 'cube'), Thing('blue', 'bin'), (0.5, 0.5), (0.5, 0.5), 'put'
)
HALF_BYTES = 2


@dataclass(frozen=True)
class RowShape:
    """Sizes of one layer's keys and values."""

    layers: int
    """How many layers are like this one."""
    kv_heads: int
    head_dim: int
    dtype: torch.dtype

    def least_bytes(self, policy: Policy, tokens: int) -> int:
        """Return the smallest budget that a policy can do something with [B].

        Args:
            policy: one that drops or encodes.
            tokens: of the longest turn; what drops none must hold them all.
        """
        row = KVRow(BlockPool(1), policy, 0, self.kv_heads, self.head_dim, self.dtype)
        shelf = row.sealed or row.open
        blocks = 1 if policy.scorer is not None else -(-tokens // shelf.codec.slots)
        return self.layers * (fixed_bytes(row) + blocks * shelf.block_bytes)


@dataclass(frozen=True)
class CacheNeeds:
    """Bytes of turns, and the shape of a row where caches can be compressed."""

    longest_bytes: int
    """Of the longest turn, when nothing is dropped [B]."""
    longest_tokens: int
    usual_bytes: int
    """Of a usual turn in half precision: what fractions are of [B]."""
    shape: RowShape | None
    """None: the model's caches know policy full only."""


def measure_needs(backbone: Backbone, longest: SessionCache) -> CacheNeeds:
    """Return the needs of a model, given a cache that has gone through the longest turn."""
    cache = longest.open(backbone)
    if not isinstance(cache, CompressedCache):
        return CacheNeeds(longest.byte_count, len(longest), 0, None)
    rows = list(cache.begin().rows.values())
    token_bytes = sum(2 * row.kv_heads * row.head_dim * HALF_BYTES for row in rows)
    prompt = backbone.prompt(USUAL_INSTRUCTION).tokens
    plan = backbone.language.codec.encode(compose(USUAL_PLAN))
    shape = RowShape(len(rows), rows[0].kv_heads, rows[0].head_dim, rows[0].open.codec.dtype)
    return CacheNeeds(
        longest.byte_count, len(longest), token_bytes * (len(prompt) + len(plan)),
        shape if backbone.can_compress else None,
    )

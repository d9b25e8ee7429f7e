# SPDX-License-Identifier: Apache-2.0
"""Policies and caches for short contexts: blocks of 8 slots, windows of 8 rows."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import CompressedCache
from cloud_backbone.kv_cache.policy import find_policy, Policy

from tests.fakes.tiny_models import Family

WINDOW = 8
SHRUNK = {'window': WINDOW, 'reserved': 4, 'sinks': 2}
"""What scorers call the sizes that a short context cannot afford."""


def small_policy(name: str, **changes: Any) -> Policy:
    """Return the policy of a name, with small blocks and windows."""
    policy = find_policy(name)
    scorer: Any = policy.scorer
    if scorer is not None:
        names = {field.name for field in fields(scorer)} & set(SHRUNK)
        scorer = replace(scorer, **{name: SHRUNK[name] for name in names})
    recent, ring = min(policy.recent, WINDOW), min(policy.ring, WINDOW - 2)
    return replace(policy, **{
        'scorer': scorer, 'block': 8, 'recent': recent, 'sinks': 2, 'ring': ring,
        'raw_sinks': min(policy.raw_sinks, 2), **changes,
    })


def small_limit(name: str) -> int | None:
    """Return mean slots of a layer that make a policy drop; None for those that drop nothing."""
    return None if find_policy(name).scorer is None else 24


def small_cache(
    family: Family, policy: str | Policy, slots: int | None = None, **options: Any
) -> CompressedCache:
    """Return a cache of a small policy for a family, with a small pool of its own."""
    if isinstance(policy, str):
        policy = small_policy(policy)
    options.setdefault('pool', BlockPool(1 << 24))
    return CompressedCache(family.model.config, policy, slots=slots, **options)

# SPDX-License-Identifier: Apache-2.0
"""Who may have how much of the cache: one pool, and what was promised of it to each session.

A session is let in only if its most fits beside what is promised to the others, so that no single
question of a session that is in finds the pool full. A long memory may: then caches that are
needed last are moved out. Knows policies, bytes and hellos; knows no turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from cloud_backbone.cache_needs import CacheNeeds
from cloud_backbone.cache_policies import ServedPolicies
from cloud_backbone.config import CacheConfig
from cloud_backbone.errors import FixRequestError, Reason, RetryCallError, StartError
from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.errors import PolicyError
from cloud_backbone.kv_cache.policy import Policy, policy_names
from cloud_backbone.memory_cache import MemoryCache
from cloud_backbone.messages import Hello
from cloud_backbone.session_cache import SessionCache

MAX_NAME_CHARS = 128


@dataclass(frozen=True)
class CacheTerms:
    """How the cache of one session is kept."""

    policy: Policy
    budget_bytes: int
    """0: no limit."""
    promised_bytes: int
    """What is set aside for the session [B]."""


class CacheGrants:
    """Gives sessions their caches and takes them back.

    Args:
        config: pool and defaults.
        needs: of the model.
        batch: most turns that are computed together.
        policies: finds policies for the model.

    Raises:
        StartError: the defaults are none that this model can serve.
    """

    def __init__(
        self, config: CacheConfig, needs: CacheNeeds, batch: int,
        policies: ServedPolicies | None = None,
    ) -> None:
        self.pool = BlockPool(config.pool_bytes)
        self._policies = policies or ServedPolicies()
        self._needs, self._promised = needs, 0
        # While a turn runs, its tokens are there uncompressed, whatever the budget.
        self._working = batch * needs.longest_bytes
        if self._working >= config.pool_bytes:
            raise StartError(
                f'cache.pool_bytes is {config.pool_bytes}, {batch} turns of this model at a time '
                f'need more than {self._working}'
            )
        try:
            self._default = self._defaults(config)
        except FixRequestError as error:
            raise StartError(f'cache: {error}') from error

    @property
    def free_bytes(self) -> int:
        """Bytes that are promised to nobody [B]."""
        return self.pool.capacity_bytes - self._working - self._promised

    def free_sessions(self) -> int:
        """Say how many more sessions on the default terms there is room for."""
        return max(self.free_bytes, 0) // max(self._default.promised_bytes, 1)

    def terms(self, hello: Hello) -> CacheTerms:
        """Return what a robot asks for, the defaults where it asks for nothing.

        Raises:
            FixRequestError: there is no such policy, or it can do nothing with such a budget.
        """
        if not hello.cache_policy and not hello.cache_budget_bytes:
            return self._default
        default = self._default
        name = hello.cache_policy or default.policy.name
        budget = hello.cache_budget_bytes
        if not budget and name == default.policy.name:
            budget = default.budget_bytes
        return self._terms(name, budget)

    def give(self, terms: CacheTerms) -> tuple[SessionCache, MemoryCache]:
        """Return new caches, for single questions and for turns with memory.

        Only one of the two is kept between turns, so that what was promised is enough for both.

        Raises:
            RetryCallError: there is no room for it now.
        """
        if terms.promised_bytes > self.free_bytes:
            raise RetryCallError(
                Reason.OVERLOADED,
                f'a session needs {terms.promised_bytes} bytes of cache, '
                f'{max(self.free_bytes, 0)} of {self.pool.capacity_bytes} are free',
            )
        self._promised += terms.promised_bytes
        budget = terms.budget_bytes or None
        return (
            SessionCache(self.pool, terms.policy, budget),
            MemoryCache(self.pool, terms.policy, budget),
        )

    def take_back(self, terms: CacheTerms) -> None:
        """Note that a session is closed."""
        self._promised -= terms.promised_bytes

    def _defaults(self, config: CacheConfig) -> CacheTerms:
        budget = config.budget_bytes
        if config.budget_fraction:
            budget = max(int(config.budget_fraction * self._needs.usual_bytes), 1)
        return self._terms(config.policy, budget)

    def _terms(self, name: str, budget: int) -> CacheTerms:
        shape = self._needs.shape
        try:
            if shape is None and name != 'full':
                raise PolicyError(name, ['full'])
            policy = self._policies.find(name)
        except PolicyError as error:
            known = policy_names() if shape is not None else ['full']
            raise FixRequestError(
                Reason.BAD_CACHE_POLICY,
                f'the robot wants cache policy {name[:MAX_NAME_CHARS]!r}, this backbone knows '
                f'{", ".join(known)}',
            ) from error
        self._check_budget(policy, budget)
        return CacheTerms(policy, budget, budget or self._needs.longest_bytes)

    def _check_budget(self, policy: Policy, budget: int) -> None:
        least, most = 0, self.pool.capacity_bytes - self._working
        if policy.lossless:
            least = self._needs.longest_bytes
        elif self._needs.shape is not None:
            least = self._needs.shape.least_bytes(policy, self._needs.longest_tokens)
        if budget and not least <= budget <= most:
            raise FixRequestError(
                Reason.BAD_CACHE_POLICY,
                f'the robot allows {budget} bytes of cache, policy {policy.name} needs {least} '
                f'and the pool has {most}; 0 leaves it to the backbone',
            )

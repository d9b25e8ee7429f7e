# SPDX-License-Identifier: Apache-2.0
"""Sessions in tiers whose next logits are known, with a clock that passes when told to."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_state.fingerprint import fingerprint_of
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.restore import Target
from cloud_backbone.kv_state.snapshot import Belongings
from cloud_backbone.kv_state.state_tiers import StateTiers
from cloud_backbone.kv_state.tier import Tier, TierLimits
from cloud_backbone.kv_state.transformers_model import TransformersModel
import torch
from torch import Tensor

from tests.fakes.small_policies import small_policy
from tests.fakes.tiny_models import make_family, text


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Fleet:
    """Tiers, and sessions whose next logits are known."""

    def __init__(
        self, limits: dict[Tier, TierLimits] | None = None, store: Any = None,
        pool_bytes: int = 1 << 24, policy: str = 'full',
    ) -> None:
        family, chosen = make_family('llama'), small_policy(policy)
        self.target = Target(
            TransformersModel(family.model), BlockPool(pool_bytes), chosen,
            fingerprint_of(family.model, chosen, weights='known'),
        )
        self.clock = Clock()
        self.limits, self.store = limits, store
        self.tiers = StateTiers(self.target, limits, store, self.clock)
        self.wanted: dict[str, Tensor] = {}

    def open(self, key: str, tokens: int = 20) -> None:
        """Take a new session in."""
        state = KVState(self.target.model, self.target.pool, self.target.policy)
        state.append('goal', text(tokens, len(self.wanted))[0].tolist())
        self.wanted[key] = state.next_logits().clone()
        self.tiers.put(key, state, Belongings(epoch=len(self.wanted)))
        self.clock.now += 1

    def where(self) -> dict[str, Tier]:
        """Return the tier of each session that is left."""
        return {key: self.tiers.where(key).tier for key in self.wanted if key in self.tiers}

    @contextmanager
    def used(self, key: str) -> Iterator[Any]:
        """Use a session, whose state must be as it was, bit for bit or nearly."""
        with self.tiers.use(key) as back:
            if back.reason:
                torch.testing.assert_close(
                    back.state.next_logits(), self.wanted[key], rtol=1e-4, atol=1e-4
                )
            else:
                assert torch.equal(back.state.next_logits(), self.wanted[key])
            yield back

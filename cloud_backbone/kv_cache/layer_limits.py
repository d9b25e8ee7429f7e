# SPDX-License-Identifier: Apache-2.0
"""How many slots each layer of a session may have: one budget, shared by the policy's rule.

Bytes become blocks when the first row is known, since rows know their prices; CAKE's shares follow
what the layers of the last prefill wanted. Decides nothing about tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cloud_backbone.kv_cache.budgeter import cascade_budgets, pyramid, share, uniform
from cloud_backbone.kv_cache.byte_budget import blocks_for
from cloud_backbone.kv_cache.errors import BudgetError, CacheError
from cloud_backbone.kv_cache.kv_row import KVRow
from cloud_backbone.kv_cache.policy import Policy

LEAST_PREFERENCE = 1e-30


class LayerLimits:
    """Shares of one session.

    Args:
        policy: says how layers share.
        layers: indices of the layers.
        budget_bytes: of the whole session [B], or None.
        slots: mean slots of a layer, or None.

    Raises:
        CacheError: slots that cannot be.
        BudgetError: bytes that cannot be.
    """

    def __init__(
        self, policy: Policy, layers: Sequence[int], budget_bytes: int | None, slots: int | None
    ) -> None:
        if slots is not None and (policy.lossless or budget_bytes is not None or slots < 1):
            raise CacheError(
                f'{slots} slots: give a positive number, no bytes beside it, and no policy that '
                'drops nothing'
            )
        if budget_bytes is not None and budget_bytes < 1:
            raise BudgetError(policy.name, budget_bytes, 1)
        self.policy, self.layers = policy, list(layers)
        self.budget_bytes, self.slots = budget_bytes, slots
        self._blocks: dict[int, int] | None = None
        self._total: int | None = None

    @property
    def unlimited(self) -> bool:
        """Whether there is no budget at all."""
        return self.budget_bytes is None and self.slots is None

    def clear(self) -> None:
        """Forget what was shared; the next row decides anew."""
        self._blocks, self._total = None, None

    def fork(self) -> LayerLimits:
        """Return the same shares for another session."""
        twin = LayerLimits(self.policy, self.layers, self.budget_bytes, self.slots)
        twin._total = self._total
        twin._blocks = None if self._blocks is None else dict(self._blocks)
        return twin

    def state(self) -> dict[str, Any]:
        """Return what was shared so far in plain words, for a file."""
        blocks = None if self._blocks is None else list(self._blocks.items())
        return {'total': self._total, 'blocks': blocks}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state`` returned."""
        self._total = state['total']
        self._blocks = None if state['blocks'] is None else {
            int(layer): int(blocks) for layer, blocks in state['blocks']
        }

    def of(self, row: KVRow, taken: int) -> int | None:
        """Return the slots that a row may have; None: as many as come.

        Args:
            row: of the layer.
            taken: bytes of the session that belong to no layer [B].

        Raises:
            BudgetError: the budget cannot hold a block per layer.
        """
        total = self._blocks_of_all(row, taken)
        if total is None:
            return None
        if self._blocks is None:
            count = len(self.layers)
            self._share(pyramid(count) if self.policy.share == 'pyramid' else uniform(count))
        assert self._blocks is not None
        return self._blocks[row.layer] * self.policy.block

    def least(self) -> int | None:
        """Return the slots of the smallest layer, if they are shared already."""
        if self._blocks is None:
            return None
        return min(self._blocks.values()) * self.policy.block

    def pay(self, row: KVRow, taken: int) -> None:
        """Share anew, as before, after the bytes that belong to no layer have changed."""
        if self.budget_bytes is None:
            return
        self._total, old = None, self._blocks
        if self._blocks_of_all(row, taken) is not None and old is not None:
            self._share(list(old.values()))

    @property
    def total(self) -> int:
        """Slots of all layers together, once ``of`` was asked."""
        assert self._total is not None
        return self._total * self.policy.block

    def cascade(
        self, wants: dict[int, float], caps: Sequence[int], pinned: int, last: bool
    ) -> dict[int, int]:
        """Share the whole budget among the layers of a prefill so far, layer -> slots.

        Args:
            wants: preference of each of these layers.
            caps: blocks that each of them can fill.
            pinned: slots that each layer must have, where the budget allows it.
            last: whether these are all layers; then the shares stay.
        """
        assert self._total is not None
        least = [max(want, LEAST_PREFERENCE) for want in wants.values()]
        floor = max(-(-pinned // self.policy.block), 1)
        if floor * len(self.layers) > self._total:
            floor = 1
        blocks = cascade_budgets(self._total, least, caps, [min(floor, cap) for cap in caps])
        if last and sum(caps) <= self._total:  # all fits; the shares count once it does not
            self._share(least)
        elif last:
            self._blocks = dict(zip(wants, blocks, strict=True))
        shared = dict(zip(wants, blocks, strict=True)) if not last else self._blocks or {}
        return {layer: count * self.policy.block for layer, count in shared.items()}

    def refusal(self, needed: int, limit: int) -> BudgetError:
        """Return the error for ``needed`` slots where ``limit`` are allowed."""
        given = self.budget_bytes or 0
        return BudgetError(self.policy.name, given, -(-given * needed // limit))

    def _share(self, weights: Sequence[float]) -> None:
        assert self._total is not None
        count = len(self.layers)
        blocks = share(self._total, weights, [self._total] * count, [1] * count)
        self._blocks = dict(zip(self.layers, blocks, strict=True))

    def _blocks_of_all(self, row: KVRow, taken: int) -> int | None:
        """Return the blocks of all layers together."""
        count = len(self.layers)
        if self._total is None and self.budget_bytes is not None:
            self._total = blocks_for(row, count, self.budget_bytes - taken)
        elif self._total is None and self.slots is not None:
            self._total = max(self.slots * count // self.policy.block, count)
        return self._total

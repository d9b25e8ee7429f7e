# SPDX-License-Identifier: Apache-2.0
"""All layers of one session under one budget: who drops how much, and when.

Every piece of state belongs to one session; two sessions share nothing but the pool. A context
manager: its pages go back when it is closed, when it fails, and when it is forgotten. Knows no
model and no attention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import weakref

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.byte_budget import trim
from cloud_backbone.kv_cache.errors import CacheError, EvictedError
from cloud_backbone.kv_cache.key_bias import KeyBias
from cloud_backbone.kv_cache.kv_row import KVRow
from cloud_backbone.kv_cache.layer_limits import LayerLimits
from cloud_backbone.kv_cache.merit import merits
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.kv_cache.rope_positions import RopePositions
import torch
from torch import Tensor

RECENT_PART = 4
"""Where layers share by merit, the newest tokens are sure of this part of a mean layer at most."""


class KVSession:
    """The cache of one sequence.

    Args:
        pool: where pages come from.
        policy: how tokens are kept.
        layers: indices of the layers that are kept here, in the order they are computed.
        budget_bytes: the most that all tensors of the session take together [B]; None: no limit.
        slots: instead of bytes, the mean number of slots of a layer; None: as bytes say.
    """

    def __init__(
        self, pool: BlockPool, policy: Policy, layers: Sequence[int], *,
        budget_bytes: int | None = None, slots: int | None = None,
    ) -> None:
        self.pool, self.policy, self.layers = pool, policy, list(layers)
        self.limits = LayerLimits(policy, layers, budget_bytes, slots)
        self.rows: dict[int, KVRow] = {}
        self.rope = RopePositions()
        self.pins: list[tuple[int, int]] = []
        """First and last position + 1 of what is never dropped."""
        self.tentative = False
        """While True, new tokens may still be taken back: nothing is dropped or encoded."""
        self._preferences: dict[int, float] = {}
        self._waiting: dict[int, float] = {}
        """Preferences of tokens that may still be taken back."""
        self._finalizer = weakref.finalize(self, _forget, pool, self.rows)

    def __enter__(self) -> KVSession:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Count the tokens so far, evicted ones included."""
        return max((row.seen for row in self.rows.values()), default=0)

    def close(self) -> None:
        """Give every page back. The session begins anew with its next token."""
        _give_back(self.rows)
        self.limits.clear()
        self._preferences.clear()
        self._waiting.clear()

    def nbytes(self) -> int:
        """Bytes of every tensor that the session owns [B]."""
        return sum(row.nbytes() for row in self.rows.values()) + self.rope.nbytes()

    def row(
        self, layer: int, kv_heads: int, head_dim: int, dtype: torch.dtype,
        bias: KeyBias | None = None,
    ) -> KVRow:
        """Return the row of a layer; it is made with the layer's first token."""
        if layer not in self.rows:
            self.rows[layer] = KVRow(
                self.pool, self.policy, layer, kv_heads, head_dim, dtype, bias, self.rope
            )
            self.rows[layer].pins = self.pins
        return self.rows[layer]

    def place(self, layer: int, spots: Tensor) -> None:
        """Learn rotary positions (axes, tokens) of tokens to come; their bytes cost blocks."""
        before = self.rope.nbytes()
        self.rope.extend(self.rows[layer].seen, spots)
        if self.rope.nbytes() != before:
            self.limits.pay(self.rows[layer], self.rope.nbytes())

    def take(
        self, layer: int, key: Tensor, value: Tensor, columns: Mapping[str, Tensor],
        preference: float | None = None,
    ) -> None:
        """Take in new tokens of one layer and settle what can be settled.

        Args:
            layer: index of the layer.
            key: (kv_heads, tokens, head_dim); value likewise.
            value: see key.
            columns: state of the scorer for the new tokens.
            preference: how much the layer wants, where a prefill of many tokens told.
        """
        # One more than there are: the next token then finds room before it attends.
        tokens = key.shape[1]
        self._make_room(layer, tokens + (tokens == 1 and not self.policy.lossless))
        self.rows[layer].append(key, value, columns)
        if self.tentative:
            self._waiting |= self._wants(layer, preference)
        else:
            self.settle(layer, preference)

    def has_room(self, layer: int) -> bool:
        """Say whether one more token fits before anything is dropped."""
        row, limit = self.rows[layer], self._limit(layer)
        return self._is_open_ended(row, limit) or row.room(limit or 0) > 0

    def admit(self, layer: int, key: Tensor, value: Tensor) -> None:
        """Take in one token that there is room for and that attends only afterwards.

        Then call ``make_way``: what has to go is chosen when the token has attended.
        """
        row = self.rows[layer]
        row.append(key, value, row.columns.rows(1))

    def settle(self, layer: int, preference: float | None = None) -> None:
        """Drop and encode what is due after the new tokens of a layer have attended."""
        if self.tentative or self.policy.lossless:
            return
        wants = self._wants(layer, preference)
        if not wants:
            self._settle_row(layer, self._limit(layer))
            return
        if layer == self.layers[0]:
            self._preferences.clear()
        self._preferences |= wants
        self._cascade(last=layer == self.layers[-1])

    def make_way(self, layer: int) -> None:
        """Settle a layer, and leave room for the next token."""
        self.settle(layer)
        if not self.policy.lossless:
            self._make_room(layer, 1)

    def commit(self) -> None:
        """Keep the tokens that could be taken back; drop and encode what is due."""
        waiting, self._waiting = self._waiting, {}
        if self.policy.share == 'global' and self.rows and self._limit(self.layers[0]) is not None:
            waiting = merits(self.rows, self.limits.total)
        if list(waiting) == self.layers:
            self._preferences = waiting
            self._cascade(last=True)
            return
        for layer in self.rows:
            self._settle_row(layer, self._limit(layer), whole=True)

    def pin(self, first: int, end: int) -> None:
        """Never drop the tokens of positions [first, end).

        Raises:
            EvictedError: some of them are gone already.
            BudgetError: a layer could not hold all that is pinned.
        """
        if not 0 <= first < end:
            raise CacheError(f'cannot pin positions {first} to {end}')
        if not all(row.holds(first, end) for row in self.rows.values()):
            raise EvictedError(
                f'positions {first} to {end} are not all held; pin them before they are dropped, '
                'or compute them anew'
            )
        pinned, least = end - first + self._pinned(), self.limits.least()
        if least is not None and pinned > least:
            raise self.limits.refusal(pinned, least)
        self.pins.append((first, end))

    def crop(self, tokens: int) -> None:
        """Forget all but the first ``tokens`` positions."""
        for row in self.rows.values():
            row.crop(tokens)
            trim(row)

    def intact(self) -> int:
        """Count the first tokens of which no layer and no head has dropped any."""
        return min((row.intact() for row in self.rows.values()), default=0)

    def fork(self) -> KVSession:
        """Return a session with the same content; pages are shared until one side writes."""
        twin = KVSession(self.pool, self.policy, self.layers)
        twin.limits = self.limits.fork()
        twin.rope = self.rope.fork()
        twin.pins.extend(self.pins)
        twin.rows.update({layer: row.fork(twin.rope) for layer, row in self.rows.items()})
        for row in twin.rows.values():
            row.pins = twin.pins
        twin.tentative = self.tentative
        twin._preferences, twin._waiting = dict(self._preferences), dict(self._waiting)
        return twin

    def _wants(self, layer: int, preference: float | None) -> dict[int, float]:
        """Return layer -> preference where it decides about the shares; else nothing."""
        shares = self.policy.share == 'cake' and self._limit(layer) is not None
        return {layer: preference} if shares and preference is not None else {}

    def _cascade(self, last: bool) -> None:
        """Share the whole budget among the layers so far; evict now, encode after the last."""
        caps = [self.rows[layer].most_blocks() for layer in self._preferences]
        limits = self.limits.cascade(self._preferences, caps, self._pinned(), last)
        for layer, limit in sorted(limits.items(), key=self._growth):
            row = self.rows[layer]
            if last:
                self._settle_row(layer, limit, whole=self.tentative)
            else:
                row.shrink(limit + row.unripe())

    def _is_open_ended(self, row: KVRow, limit: int | None) -> bool:
        """Say whether new tokens are dropped or encoded later, if ever."""
        return limit is None or self.tentative or row.sealed is not None

    def _make_room(self, layer: int, tokens: int) -> None:
        row, limit = self.rows[layer], self._limit(layer)
        if limit is not None and self.policy.lossless:
            self._reserve(row, limit, tokens)
        elif limit is not None and not self._is_open_ended(row, limit):
            if tokens <= row.recent:
                row.make_room(tokens, limit)

    def _settle_row(self, layer: int, limit: int | None, whole: bool = False) -> None:
        row = self.rows[layer]
        if limit is not None and row.sealed is not None and self.policy.scorer is None:
            size = self.policy.block
            needed = row.slots + -(-(row.due if whole else row.ripe()) // size) * size
            if needed > limit:
                raise self.limits.refusal(needed, limit)
        row.settle(limit, whole)
        trim(row)

    def _growth(self, item: tuple[int, int]) -> int:
        """Say by how much a layer grows: those that give blocks back come first."""
        return item[1] - self.rows[item[0]].slots

    def _limit(self, layer: int) -> int | None:
        """Return the slots that a layer may have; None: as many as come."""
        fresh = self.limits.least() is None
        limit = self.limits.of(self.rows[layer], self.rope.nbytes())
        least = self.limits.least()
        if fresh and least is not None and self._pinned() > least:
            raise self.limits.refusal(self._pinned(), least)
        if limit is not None and self.policy.share == 'global':
            mean = self.limits.total // len(self.layers)
            self.rows[layer].recent = min(self.policy.recent, mean // RECENT_PART)
        return limit

    def _pinned(self) -> int:
        return sum(end - first for first, end in self.pins)

    def _reserve(self, row: KVRow, limit: int, tokens: int) -> None:
        """Take all pages of a row that drops nothing at once, side by side."""
        if row.seen + tokens > limit:
            raise self.limits.refusal(row.seen + tokens, limit)
        row.reserved = True
        row.open.extend(limit // self.policy.block - row.open.blocks)


def _give_back(rows: dict[int, KVRow]) -> None:
    for row in rows.values():
        row.clear()
    rows.clear()


def _forget(pool: BlockPool, rows: dict[int, KVRow]) -> None:
    """Give the pages of a session back that was collected as garbage, wherever that happens."""
    for row in rows.values():
        for shelf in (row.open, *row.tiers):
            pool.forget(shelf.codec.key_bytes, shelf.key_pages)
            pool.forget(shelf.codec.value_bytes, shelf.value_pages)
    rows.clear()

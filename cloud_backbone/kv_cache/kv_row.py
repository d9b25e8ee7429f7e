# SPDX-License-Identifier: Apache-2.0
"""One layer of one session: an open shelf for new tokens and, under a codec, a sealed one.

Tokens come in raw, are scored by the attention they get, and are dropped or encoded when the row
is settled to its limit: first evicted on exact scores, then encoded, once. Knows no other layer,
no bytes budget, and no attention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import math

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.errors import NonFiniteError, PoolFullError
from cloud_backbone.kv_cache.key_bias import KeyBias
from cloud_backbone.kv_cache.open_shelf import OpenShelf
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.kv_cache.ranking import best, protect, worst
from cloud_backbone.kv_cache.rope_positions import RopePositions
from cloud_backbone.kv_cache.sealing import seal
from cloud_backbone.kv_cache.shelf import Shelf
from cloud_backbone.kv_cache.tiering import retier
import torch
from torch import Tensor


class KVRow:
    """Keys and values of one layer.

    Args:
        pool: where pages come from.
        policy: how tokens are kept.
        layer: index of the layer, for messages and calibrated codecs.
        kv_heads: heads of keys and values.
        head_dim: channels of a head.
        dtype: type that the model computes in.
        bias: what keys are stored without; only rows with a codec do so.
        rope: rotary positions of the session.
    """

    def __init__(
        self, pool: BlockPool, policy: Policy, layer: int, kv_heads: int, head_dim: int,
        dtype: torch.dtype, bias: KeyBias | None = None, rope: RopePositions | None = None,
    ) -> None:
        self.policy, self.layer = policy, layer
        self.kv_heads, self.head_dim = kv_heads, head_dim
        self.columns = policy.columns(kv_heads)
        self.open = OpenShelf(pool, policy.raw(head_dim, dtype), kv_heads, self.columns)
        self.tiers = [
            Shelf(pool, codec, kv_heads, self.columns)
            for codec in policy.codecs(layer, kv_heads, head_dim)
        ]
        """Encoded blocks, the codec of most bits first; none for a policy that keeps all raw."""
        self.sealed = self.tiers[policy.counted] if self.tiers else None
        """The tier whose blocks a limit counts."""
        self.bias = bias if self.tiers else None
        self.rope = rope or RopePositions()
        self.seen = 0
        """Tokens so far, evicted ones included: the next token's position."""
        self.pins: Sequence[tuple[int, int]] = ()
        """First and last position + 1 of what is never dropped."""
        self.recent = policy.recent
        """Newest tokens that are never dropped."""
        self.reserved = False
        """Whether all pages that the limit allows are taken beforehand."""

    @property
    def shelves(self) -> list[Shelf]:
        """All shelves that hold something; the open one comes last."""
        return [shelf for shelf in (*self.tiers, self.open) if shelf.used]

    @property
    def complete(self) -> bool:
        """Whether all tokens are there, raw and in order."""
        return self.open.tail == self.seen and not self.open.has_dead

    def nbytes(self) -> int:
        """Bytes of every tensor of this row [B]."""
        parts: list[Shelf] = [self.open, *self.tiers]
        return sum(part.nbytes() + part.codec.nbytes() for part in parts)

    def learn(self, queries: Tensor) -> None:
        """Show the codecs queries (kv_heads, rows, head_dim)."""
        for tier in self.tiers:
            tier.codec.learn(queries)

    def append(self, key: Tensor, value: Tensor, columns: Mapping[str, Tensor]) -> None:
        """Take in new tokens: keys and values (kv_heads, tokens, head_dim).

        Raises:
            PoolFullError: there is no page left.
        """
        positions = torch.arange(self.seen, self.seen + key.shape[1])
        if self.bias is not None:
            key = self.bias.remove(key, self.rope.of(positions))
        self._grow(key.shape[1])
        self.open.append(key, value, positions, columns)
        self.seen += key.shape[1]

    def extra_blocks(self, filled: int) -> int:
        """Count the blocks beyond the filled ones that the row keeps for the next tokens."""
        return -int(-filled * self.policy.growth // 1)

    def _grow(self, tokens: int) -> None:
        """Take more blocks than the next tokens need, as far as the policy says."""
        needed = -(-(self.open.tail + tokens) // self.open.codec.slots)
        if self.policy.growth and needed > self.open.blocks:
            try:
                self.open.extend(needed + self.extra_blocks(needed) - self.open.blocks)
            except PoolFullError:
                pass  # there may be room for what is needed

    def check(self, key: Tensor, value: Tensor) -> None:
        """Refuse NaN and infinity before anything is changed.

        Raises:
            NonFiniteError: there are some.
        """
        total = float(key.sum(dtype=torch.float32) + value.sum(dtype=torch.float32))
        if not math.isfinite(total) and not bool((key.isfinite() & value.isfinite()).all()):
            raise NonFiniteError(self.layer)

    def worth(self, shelf: Shelf) -> Tensor:
        """Return what each slot of a shelf is worth to keep (kv_heads, slots)."""
        policy = self.policy
        scores = torch.zeros(1, shelf.slots)
        if policy.scorer is not None:
            scores = policy.scorer.scores(shelf.columns, shelf.positions)
        return protect(
            scores.expand(self.kv_heads, -1), shelf.positions, self.seen, policy.sinks,
            self.recent, self.pins,
        )

    def keeps(self, key: Tensor) -> bool:
        """Say whether such keys are stored as they are until something is dropped or encoded."""
        return self.bias is None and self.open.codec.dtype == key.dtype

    def room(self, limit: int) -> int:
        """Count the tokens that a raw row takes in before it is full."""
        return self.open.room + max(limit - self.open.tail, 0)

    def make_room(self, tokens: int, limit: int) -> None:
        """Drop the worst slots, so that ``tokens`` more stay within ``limit``; raw rows only."""
        lacking = tokens - self.room(limit)
        if lacking > 0:
            at_once = min(self.policy.drop_at_once, limit // 8)
            count = min(max(lacking, at_once), self.open.used)
            self.open.release(worst(self.worth(self.open), self.open.positions, count))

    def shrink(self, limit: int) -> None:
        """Keep the ``limit`` best slots of the open shelf, packed without gaps."""
        if int(self.open.alive.sum(1).max()) > limit:
            self.open.pack(best(self.worth(self.open), self.open.positions, limit))

    def settle(self, limit: int | None, whole: bool = False) -> None:
        """Drop and encode, so that the row holds no more than ``limit`` slots.

        Args:
            limit: slots of the sealed shelf, or of the open one where there is no codec; None
                drops nothing.
            whole: encode all that the policy lets a commit encode, the last block in part.
        """
        if self.sealed is None:
            if limit is not None:
                self.shrink(limit)
            return
        tokens = self.due if whole else self.ripe()
        if tokens or (limit is not None and self.slots > limit):
            (seal if len(self.tiers) == 1 else retier)(self, tokens, limit)

    @property
    def slots(self) -> int:
        """Slots as a limit counts them: of the open shelf, or of sealed blocks by their bytes."""
        if self.sealed is None:
            return self.open.slots
        taken = sum(tier.blocks * tier.block_bytes for tier in self.tiers)
        return -(-taken // self.sealed.block_bytes) * self.sealed.codec.slots

    def most_blocks(self) -> int:
        """Count the blocks that the row could fill with what it holds now."""
        size = self.open.codec.slots
        if self.sealed is None:
            return -(-self.open.tail // size)
        most = -(-self.tiers[0].block_bytes // self.sealed.block_bytes)
        return self.slots // size + -(-self.due // size) * most

    @property
    def ring_blocks(self) -> int:
        """Open blocks that a row under a codec always has."""
        size = self.open.codec.slots
        if self.sealed is None or self.policy.whole:
            return 0
        return 1 + -(-(self.policy.ring + self.raw_sinks) // size)

    @property
    def raw_sinks(self) -> int:
        """First tokens that are never encoded."""
        return 0 if self.policy.whole else self.policy.raw_sinks

    @property
    def due(self) -> int:
        """Count the open tokens that a commit encodes."""
        return int(self.open.alive.sum(1).max()) if self.policy.whole else self.ripe()

    def unripe(self) -> int:
        """Count the newest open tokens that are not due to be encoded yet."""
        if self.sealed is None:
            return 0
        return int(self.open.alive.sum(1).max()) - self.ripe()

    def ripe(self) -> int:
        """Count the open tokens, sinks aside, that are due to be encoded; whole blocks."""
        assert self.sealed is not None
        size = self.sealed.codec.slots
        alive = int(self.open.alive.sum(1).max())
        return max(alive - self.raw_sinks - self.policy.ring, 0) // size * size

    def holds(self, first: int, end: int) -> bool:
        """Say whether every head still has every seen token of positions [first, end)."""
        wanted = max(min(end, self.seen) - first, 0)
        held = [
            ((shelf.positions >= first) & (shelf.positions < end)).sum(1) for shelf in self.shelves
        ]
        return not wanted or int(torch.stack(held).sum(0).min()) == wanted

    def intact(self) -> int:
        """Count the first tokens that every head still has."""
        held = torch.zeros(self.kv_heads, self.seen + 1, dtype=torch.bool)
        for shelf in self.shelves:
            held.scatter_(1, shelf.positions.clamp(min=-1).long() % (self.seen + 1), True)
        held[:, self.seen] = False
        return int(held.all(0).int().argmin())

    def crop(self, tokens: int) -> None:
        """Forget all but the first ``tokens`` positions; blocks without any are given back."""
        if tokens >= self.seen:
            return
        self.seen = max(tokens, 0)
        self.rope.cut(self.seen)
        self.open.drop_last(self.seen)
        for tier in self.tiers:
            if tier.slots:
                tier.kill(tier.positions >= self.seen)
                tier.drop_empty()

    def clear(self) -> None:
        """Give every page back."""
        self.open.clear()
        self.open.tail = 0
        for tier in self.tiers:
            tier.clear()
        self.rope.cut(0)
        self.reserved = False
        self.seen = 0

    def fork(self, rope: RopePositions) -> KVRow:
        """Return a row with the same content; pages are shared until one side writes them."""
        twin = object.__new__(KVRow)
        twin.__dict__.update(self.__dict__)
        twin.open = self.open.fork()
        twin.tiers = [tier.fork() for tier in self.tiers]
        twin.sealed = twin.tiers[self.policy.counted] if twin.tiers else None
        twin.rope = rope
        return twin

# SPDX-License-Identifier: Apache-2.0
"""One session's cache as named segments: appended, cropped, edited, forked, and accounted for.

Token ids and images' hashes are the truth, keys and values a cache of them. Every edit is all or
nothing and answers with a receipt. Not thread-safe. The edits themselves stand in files of their
own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
import time

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import DEFAULT_POOL_BYTES
from cloud_backbone.kv_cache.policy import find_policy, Policy
from cloud_backbone.kv_state import appending, replacing, splicing, turn_hand_over, verifying
from cloud_backbone.kv_state.errors import LayoutError
from cloud_backbone.kv_state.gate import CLOSED, Gate
from cloud_backbone.kv_state.receipt import Certificate, Mark, Receipt, Stats
from cloud_backbone.kv_state.replacing import Mode, RECOMPUTE
from cloud_backbone.kv_state.segment import chain_hash, first_tokens, Segment, SegmentImage
from cloud_backbone.kv_state.state_body import StateBody
from cloud_backbone.kv_state.state_model import StateModel
from cloud_backbone.kv_state.verifying import Divergence, likeliest
from torch import Tensor
from transformers.cache_utils import Cache

GROWTH = 0.125
"""Share of blocks that a state without a budget has beyond those it fills."""


class KVState:
    """Named segments of one session and their cache.

    Args:
        model: computes keys and values.
        pool: where pages come from; None: a pool of its own.
        policy: how tokens are kept.
        budget_bytes: the most that is kept between edits [B]; None: no limit.
        gate: says which approximate edits are allowed; by default none is.
        body: what to go on with, in place of model, pool, policy and budget.
    """

    def __init__(
        self, model: StateModel, pool: BlockPool | None = None, policy: str | Policy = 'full',
        budget_bytes: int | None = None, *, gate: Gate = CLOSED,
        body: StateBody | None = None,
    ) -> None:
        self.gate = gate
        found = find_policy(policy) if isinstance(policy, str) else policy
        if found.lossless:
            found = replace(found, growth=GROWTH)
        self.body = body or StateBody(
            model, pool or BlockPool(DEFAULT_POOL_BYTES), found, budget_bytes
        )

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments in their order; those without tokens are not among them."""
        return self.body.segments

    @property
    def cache(self) -> Cache:
        """The cache itself, for whoever computes turns by himself (``begin``, ``hold``)."""
        return self.body.held.cache

    def __len__(self) -> int:
        """Count the tokens."""
        return self.body.tokens

    def append(
        self, name: str, tokens: Sequence[int], *, epoch: int | None = None,
        image: SegmentImage | None = None,
    ) -> Receipt:
        """Add tokens to the last segment, or begin a later one of ``segment.LAYOUT``.

        Args:
            name: of the segment.
            tokens: ids, places of the image included.
            epoch: the observation that the tokens show.
            image: at most one per segment.

        Raises:
            LayoutError: there is a segment behind this one.
            PoolFullError, BudgetError: there is no room; the state is as it was.
        """
        return self._edit(lambda body: appending.append(
            body, Segment(name, tuple(tokens), epoch, image)
        ))

    def crop(self, to: Mark) -> Receipt:
        """Forget all tokens behind a mark.

        Raises:
            StaleMark: the tokens before it are not those that were there when it was taken.
            LostHistory: layers with a window, or a policy, have lost what would be the end.
        """
        return self._edit(lambda body: appending.crop(body, to))

    def mark(self, before: str | None = None) -> Mark:
        """Return the place before a segment; by default the end.

        Raises:
            LayoutError: there is no such segment.
        """
        body = self.body
        tokens = body.tokens if before is None else body.start(body.place(before))
        return Mark(tokens, chain_hash(first_tokens(body.segments, tokens)))

    def commit_step(
        self, history: Sequence[int], scene: Sequence[int], *, epoch: int | None = None,
        image: SegmentImage | None = None,
    ) -> Receipt:
        """Take one step of the agent: scene and scratch go, history grows, a new scene comes.

        Exact, and as cheap as the new tokens, however long the history is. Raises as ``append``.

        Args:
            history: what the step was and what came of it; may be empty.
            scene: what is seen now, places of the image included; may be empty.
            epoch: the observation that the scene shows.
            image: of the scene.
        """
        return self._edit(lambda body: replacing.commit_step(
            body, Segment('history', tuple(history)), Segment('scene', tuple(scene), epoch, image)
        ))

    def replace(
        self, name: str, tokens: Sequence[int], mode: Mode = RECOMPUTE, *,
        epoch: int | None = None, image: SegmentImage | None = None,
    ) -> Receipt:
        """Put other tokens into a segment.

        Args:
            name: of a segment that is there.
            tokens: ids, at least one.
            mode: what becomes of the tokens behind it (``replacing.Edit``).
            epoch: the observation that the tokens show.
            image: of the new tokens.

        Raises:
            LayoutError: there is no such segment.
            ApproxRefused: the gate does not allow the mode.
            UnsupportedMove: the mode keeps tokens, and this cache cannot.
        """
        new = Segment(name, tuple(tokens), epoch, image)
        return self._edit(lambda body: replacing.replace(body, new, mode, self.gate))

    def drop(self, name: str, mode: Mode = RECOMPUTE) -> Receipt:
        """Take a segment out. Raises as ``replace`` does."""
        return self._edit(lambda body: replacing.drop(body, name, mode, self.gate))

    def move(self, name: str, index: int, mode: Mode = RECOMPUTE) -> Receipt:
        """Take a segment to another place in the order. Raises as ``replace`` does."""
        return self._edit(lambda body: replacing.move(body, name, index, mode, self.gate))

    def shift(self, distance: int) -> Receipt:
        """Take all tokens to positions ``distance`` further; exact, nothing is computed.

        Raises:
            UnsupportedMove: this cache or the model's positions do not allow it.
        """
        return self._edit(lambda body: splicing.shift(body, distance))

    def fork(self, at: Mark | None = None) -> KVState:
        """Return a state with the same content, up to a mark; neither changes the other.

        Pages are shared until one side writes.
        """
        child = KVState(self.body.model, gate=self.gate, body=self.body.fork())
        if at is not None:
            try:
                child.crop(at)
            except BaseException:
                child.close()
                raise
        return child

    def promote(self, child: KVState) -> Receipt:
        """Go on with what a fork of this state holds; the fork is closed.

        Raises:
            LayoutError: the other state is of another model or pool.
        """
        mine, its = self.body, child.body
        if (mine.model, mine.pool) != (its.model, its.pool) or child is self:
            raise LayoutError('only a fork of this state can be promoted')
        self.body, child.body = its, mine
        child.close()
        return self._receipt(0, time.perf_counter())

    def begin(self, segments: Sequence[Segment]) -> int:
        """Crop to what these segments begin with; return how many of their tokens are held.

        For whoever computes the rest in ``cache`` by himself and then calls ``hold``. The last
        token is never among those held, so that there is something to compute.
        """
        return turn_hand_over.begin(self.body, segments)

    def hold(self, segments: Sequence[Segment], spots: Tensor | None = None) -> Receipt:
        """Record that the cache holds exactly these segments now.

        Args:
            segments: all of them, in order.
            spots: rotary positions (axes, tokens), where the model was given others than its
                own layout of these segments.

        Raises:
            LayoutError: the cache holds another number of tokens.
        """
        began = time.perf_counter()
        computed = turn_hand_over.hold(self.body, segments, spots)
        return self._receipt(computed, began)

    def greedy(self, count: int, name: str = 'scratch') -> list[int]:
        """Write the likeliest next tokens, places of images aside; return them.

        Raises:
            LayoutError: there is no token yet, or a segment behind this one.
        """
        written, image_token = list[int](), self.body.model.image_token
        for _ in range(count):
            written.append(likeliest(self.next_logits(), image_token))
            self.append(name, written[-1:])
        return written

    def next_logits(self) -> Tensor:
        """Return the logits of the next token (vocabulary,), float32. Raises as ``greedy``."""
        return self.body.next_logits()

    def verify(self, name: str | None = None) -> Divergence:
        """Compare with a full computation beside it; approximate classes learn what was measured.

        Args:
            name: compare after each token of this segment, computed anew on what is held before
                it; None: after the last token alone.

        Raises:
            MissingImage: an image has to be seen again and is not at hand.
            PoolFullError: there is no room for a second copy.
        """
        return verifying.verify(self.body, name)

    def repair(self) -> Receipt:
        """Compute exactly what edits have left approximate.

        Raises:
            MissingImage: an image has to be seen again and is not at hand.
            PoolFullError: there is no page left; the state is as it was.
        """
        return self._edit(verifying.repair)

    def rehydrate(self) -> Receipt:
        """Compute everything from the tokens again, whatever was lost. Raises as ``repair``."""
        return self._edit(verifying.rehydrate)

    def certificate(self) -> Certificate:
        """Say on what the next answer rests."""
        body = self.body
        epochs = body.taint.all_of(body.tokens)
        return Certificate(
            body.prefix_hash(), body.exactness, max(epochs, default=None),
            min(epochs, default=None),
        )

    def stats(self) -> Stats:
        """Count what is held."""
        body = self.body
        epochs = body.taint.all_of(body.tokens)
        return Stats(
            body.tokens, body.held.nbytes(), body.computed,
            {one.name: one.exactness for one in body.segments},
            {one.name: len(one.tokens) for one in body.segments},
            max(epochs, default=None), body.held.min_pos(),
        )

    def close(self) -> None:
        """Forget everything; the state begins anew with its next token."""
        self.body.clear()

    def _edit(self, edit: Callable[[StateBody], int]) -> Receipt:
        """Run an edit that counts the tokens that it computed."""
        began, body = time.perf_counter(), self.body
        if len(body.held) < body.tokens and not body.reason:
            body.reason = 'the cache was closed in between'
        computed = edit(body)
        reason, body.reason = body.reason, ''
        return self._receipt(computed, began, reason if computed else '')

    def _receipt(self, computed: int, began: float, reason: str = '') -> Receipt:
        body, ms = self.body, (time.perf_counter() - began) * 1e3
        return Receipt(
            body.exactness, body.tokens - computed, computed, body.prefix_hash(), ms, reason,
            body.stale(),
        )

# SPDX-License-Identifier: Apache-2.0
"""What all edits of a state share: its table of segments and the cache that follows the table.

An edit changes the table, crops the cache to what is still true, and catches up: every token of
the table that the cache lacks goes through the model. Knows no particular edit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.kv_cache.rope_positions import RopePositions
from cloud_backbone.kv_state.batches import batches, Piece
from cloud_backbone.kv_state.errors import LayoutError, MissingImage
from cloud_backbone.kv_state.exactness import Exactness, NUMERIC, worst
from cloud_backbone.kv_state.held_cache import Held, HeldCache
from cloud_backbone.kv_state.policy_losses import pin_stable, with_losses
from cloud_backbone.kv_state.segment import (
    chain_hash,
    count_tokens,
    first_tokens,
    image_span,
    lacking_pixels,
    Segment,
)
from cloud_backbone.kv_state.state_model import StateModel
from cloud_backbone.kv_state.taint import Taint
import torch
from torch import Tensor


class StateBody:
    """Segments and their cache.

    Args:
        model: computes what the cache lacks.
        pool: where pages come from.
        policy: how tokens are kept.
        budget_bytes: the most that is kept between edits [B]; None: no limit.
        held: a cache to go on with; None: an empty one.
    """

    def __init__(
        self, model: StateModel, pool: BlockPool, policy: Policy, budget_bytes: int | None,
        held: HeldCache | None = None,
    ) -> None:
        self.model, self.pool, self.policy = model, pool, policy
        self.budget_bytes = budget_bytes
        if held is None:  # an empty one is falsy
            held = HeldCache(model.new_cache(pool, policy, budget_bytes))
        self.held = held
        self.segments: tuple[Segment, ...] = ()
        self.rope = RopePositions()
        """Rotary positions of all tokens; kept here, since a model forgets whose they are."""
        self.taint = Taint()
        self.logits: Tensor | None = None
        """What follows the last token (vocabulary,), if that is known."""
        self.computed = 0
        """Tokens that went through the model so far."""
        self.record: list[Tensor] | None = None
        """Where it is a list, logits of all computed tokens are added to it."""
        self.reason = ''
        """Why more was computed than the last edit needs by itself; empty: it was not."""

    @property
    def tokens(self) -> int:
        """Count the tokens of the table."""
        return count_tokens(self.segments)

    def prefix_hash(self) -> str:
        """Return the hash of all segments."""
        return chain_hash(self.segments)

    def place(self, name: str) -> int:
        """Return the place of a segment in the table.

        Raises:
            LayoutError: there is none of that name.
        """
        names = [segment.name for segment in self.segments]
        if name not in names:
            raise LayoutError.unknown(name, names)
        return names.index(name)

    def start(self, place: int) -> int:
        """Count the tokens before a segment."""
        return count_tokens(self.segments[:place])

    @property
    def exactness(self) -> Exactness:
        """The class of what the state says next."""
        return worst(NUMERIC, *(segment.exactness for segment in self.segments))

    def set_segment(self, place: int, segment: Segment) -> None:
        """Put a segment in the place of another one."""
        self.segments = (*self.segments[:place], segment, *self.segments[place + 1 :])

    def next_spot(self, tokens: int) -> int:
        """Return the rotary position of a token that follows the first ``tokens``."""
        if tokens == 0:
            return 0
        return int(self.rope.of(torch.tensor([tokens - 1])).max()) + 1

    def cut_cache(self, tokens: int) -> None:
        """Let the cache forget all but the first ``tokens``, or more where it cannot go there."""
        held = len(self.held)
        if tokens < held:
            near = self.held.reachable(tokens)
            if near < tokens:
                self.reason = f'a sliding window has lost what is before token {tokens}'
            self.held.crop(near)
            self.logits = None
        self.rope.cut(len(self.held))

    def cut(self, tokens: int) -> None:
        """Forget all but the first ``tokens``, in table and cache."""
        if tokens >= self.tokens:
            return
        self.cut_cache(tokens)
        self.taint.cut(tokens)
        self.segments = first_tokens(self.segments, tokens)
        self.logits = None

    def catch_up(self) -> int:
        """Compute every token that the cache lacks, and let the policy do its work; count them."""
        before = self.computed
        for batch in batches(self.segments, len(self.held), self.model.image_token,
                             apart=self.held.slides):
            self._compute(batch)
        if self.computed > before:
            self.settle()
            starts = {self.start(place) for place in range(len(self.segments))}
            self.held.forget_others({*starts, self.tokens})
        return self.computed - before

    def next_logits(self) -> Tensor:
        """Return what follows the last token (vocabulary,); a LayoutError if there is none."""
        if not self.tokens:
            raise LayoutError('an empty state has nothing to go on from: append a token first')
        self.catch_up()
        if self.logits is None:
            self.cut_cache(self.whole(self.tokens - 1))
            self.catch_up()
        assert self.logits is not None
        return self.logits

    def whole(self, tokens: int) -> int:
        """Return the greatest length up to ``tokens`` that cuts no image."""
        for place, segment in enumerate(self.segments):
            first = self.start(place)
            span = image_span(segment, self.model.image_token)
            if span is not None and first + span[0] < tokens < first + span[1]:
                return first + span[0]
        return tokens

    @contextmanager
    def all_or_nothing(self, kept: int) -> Iterator[None]:
        """Restore the table after an exception; what is behind ``kept`` is computed when needed.

        Args:
            kept: the first tokens, whose keys and values the edit does not touch.
        """
        segments, logits, computed = self.segments, self.logits, self.computed
        rope, taint = self.rope.fork(), self.taint.copy()
        held = len(self.held)
        self.held.remember()
        blind = self._lift_blind(kept)
        try:
            yield
        except BaseException as error:
            self.cut_cache(kept)
            if blind is not None:
                self.held.put_or_leave(blind, self.model.rotation)
            self.segments, self.rope, self.taint = segments, rope, taint
            self.logits = logits if len(self.held) == held else None
            self.computed = computed
            self.reason = f'an edit failed: {type(error).__name__}'
            raise

    def fork(self) -> StateBody:
        """Return a body with the same content; neither changes the other."""
        twin = StateBody(
            self.model, self.pool, self.policy, self.budget_bytes, self.held.fork()
        )
        twin.segments, twin.logits = self.segments, self.logits
        twin.rope, twin.taint = self.rope.fork(), self.taint.copy()
        twin.reason = self.reason
        return twin

    def stale(self) -> dict[str, int]:
        """Return segment -> the oldest epoch that fed it and is not shown any more."""
        shown = {segment.epoch for segment in self.segments}
        found = dict[str, int]()
        for place, segment in enumerate(self.segments):
            first = self.start(place)
            parts = self.taint.parts(first, first + len(segment.tokens))
            gone = {epoch for _, epochs in parts for epoch in epochs} - shown
            if gone:
                found[segment.name] = min(epoch for epoch in gone if epoch is not None)
        return found

    def clear(self) -> None:
        """Forget everything."""
        self.held.close()
        self.segments, self.logits, self.reason = (), None, ''
        self.rope.cut(0)
        self.taint.cut(0)

    def _lift_blind(self, first: int) -> Held | None:
        """Copy the tokens from ``first`` on, where an image is known by its hash alone.

        Such tokens cannot be computed anew. None: they can, or cannot be copied.
        """
        behind = [one for place, one in enumerate(self.segments)
                  if self.start(place) + len(one.tokens) > first]
        if not lacking_pixels(behind) or not self.policy.lossless or self.held.min_pos():
            return None
        return self.held.lift(first, len(self.held))

    def _compute(self, batch: Sequence[Piece]) -> None:
        """Send some pieces through the model, one behind the other."""
        if batch[0].first == 0:
            self.held.remember()
        spots, tokens, image = list[Tensor](), list[int](), None
        spot = self.next_spot(batch[0].start)
        for piece in batch:
            segment = self.segments[piece.place]
            part = segment.tokens[piece.first : piece.end]
            shown = segment.image if self.model.image_token in part else None
            if shown is not None:
                check_pixels([segment])
                image = shown
            spots.append(self.model.spots(part, shown, spot))
            spot = int(spots[-1].max()) + 1
            tokens += part
        predict = 1 if self.record is None else len(tokens)
        with self.held.all_or_nothing():
            logits = self.model.forward(
                self.held.cache, tokens, torch.cat(spots, 1), image, predict
            )
        self.logits = logits[-1]
        self.computed += len(tokens)
        if self.record is not None:
            self.record.append(logits)
        for piece, where in zip(batch, spots, strict=True):
            self._note(piece, where)

    def _note(self, piece: Piece, spots: Tensor) -> None:
        """Note of computed tokens where they stand, what fed them, and how exact they are."""
        segment = self.segments[piece.place]
        self.rope.extend(piece.start, spots)
        epochs = () if segment.epoch is None else (segment.epoch,)
        self.taint.extend(piece.start, frozenset(epochs))
        past = worst(NUMERIC, *(one.exactness for one in self.segments[: piece.place]))
        own = segment.exactness if piece.first else NUMERIC
        self.set_segment(piece.place, replace(segment, exactness=worst(past, own)))

    def settle(self) -> None:
        """Let the policy drop and encode what is due; note which segments that has touched."""
        session = self.held.session
        if session is None or self.policy.lossless:
            return
        pin_stable(session, self.segments)
        self.held.commit()
        self.segments = with_losses(session, self.segments)

    def holds(self, first: int, end: int) -> bool:
        """Say whether no token of [first, end) was dropped."""
        session = self.held.session
        return session is None or all(row.holds(first, end) for row in session.rows.values())


def check_image(model: StateModel, segment: Segment) -> None:
    """Refuse an image without places, places without an image, and an image without pixels.

    Raises:
        LayoutError: one is there without the other.
        MissingImage: the image is known by its hash alone.
    """
    places = model.image_token is not None and model.image_token in segment.tokens
    if model.image_token is not None and places != (segment.image is not None):
        has, lacks = ('places of', 'no') if places else ('an', 'no places for the')
        raise LayoutError(f'segment {segment.name!r} has {has} image, but {lacks} image')
    check_pixels([segment])


def check_pixels(segments: Iterable[Segment]) -> None:
    """Refuse to compute segments whose image is known by its hash alone.

    Raises:
        MissingImage: with that hash.
    """
    blind = lacking_pixels(segments)
    if blind is not None and blind.image is not None:
        raise MissingImage(blind.name, blind.image.sha256)

# SPDX-License-Identifier: Apache-2.0
"""Edits that keep what was computed and put it elsewhere: cheap, and approximate.

A kept token goes on with keys and values that it got when it saw the old tokens; its keys are
turned to its new position, which is exact, its content is not. What is put back that way is
marked, and so is all that is computed after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from cloud_backbone.kv_state.errors import UnsupportedMove
from cloud_backbone.kv_state.exactness import approximate, worst
from cloud_backbone.kv_state.held_cache import Held
from cloud_backbone.kv_state.segment import Segment
from cloud_backbone.kv_state.state_body import check_pixels, StateBody
from cloud_backbone.kv_state.taint import Epochs
import torch
from torch import Tensor


@dataclass(frozen=True)
class Kept:
    """A segment that goes on as it is."""

    place: int
    """In the table before the edit."""


@dataclass(frozen=True)
class _Lifted:
    """Tokens of a kept segment behind its first ``done``, taken out of the cache."""

    segment: Segment
    done: int
    held: Held
    spots: Tensor
    base: int
    """Rotary position at which they began."""
    fed: list[tuple[int, Epochs]]


def splice(
    body: StateBody, order: Sequence[Kept | Segment], kind: str, fresh: int = 0
) -> int:
    """Rearrange segments; compute new ones and put kept ones back; count the computed tokens.

    Args:
        body: with a cache that keeps all tokens as they were computed.
        order: the table after the edit.
        kind: of the edit, for the classes of what was put back.
        fresh: tokens behind the first change that are computed anew all the same.

    Raises:
        UnsupportedMove: the policy, a sliding window or the model's positions do not allow it.
    """
    check_movable(body)
    same = next((place for place, part in enumerate(order) if part != Kept(place)), len(order))
    first = body.start(same)
    body.catch_up()
    check_pixels(part for part in order if isinstance(part, Segment))
    before = body.computed
    with untouched_on_error(body, first):
        parts = list[Segment | _Lifted]()
        for part in order[same:]:
            if isinstance(part, Kept):
                lifted = _lift(body, part.place, fresh)
                fresh = max(fresh - len(lifted.segment.tokens), 0)
                parts.append(lifted)
            else:
                parts.append(part)
        body.cut(first)
        body.held.remember()
        for one in parts:
            if isinstance(one, Segment):
                body.segments = (*body.segments, one)
                body.catch_up()
            else:
                _put(body, one, kind)
        if parts and isinstance(parts[-1], _Lifted):
            body.logits = None
        return body.computed - before


def shift(body: StateBody, distance: int) -> int:
    """Take every token to a position ``distance`` further; what is said next stays the same.

    Raises:
        UnsupportedMove: the policy, a sliding window or the model's positions do not allow it.
    """
    check_movable(body)
    body.catch_up()
    tokens = body.tokens
    if not tokens:
        return 0
    spots = body.rope.of(torch.arange(tokens))
    if int(spots.min()) + distance < 0:
        raise UnsupportedMove(f'{distance} positions further begins before position 0')
    with untouched_on_error(body, 0):
        segments, logits, taint = body.segments, body.logits, body.taint.copy()
        lifted = body.held.lift(0, tokens)
        body.cut(0)
        body.held.put(lifted, distance, body.model.rotation)
        body.segments, body.logits, body.taint = segments, logits, taint
        body.rope.extend(0, spots + distance)
    return 0


def check_movable(body: StateBody) -> None:
    """Refuse a cache whose tokens cannot be taken out.

    Raises:
        UnsupportedMove: with the reason.
    """
    if not body.policy.lossless:
        raise UnsupportedMove(
            f'policy {body.policy.name} does not keep tokens as they were computed'
        )
    if body.held.min_pos() > 0:
        raise UnsupportedMove('layers with a sliding window have lost tokens')


@contextmanager
def untouched_on_error(body: StateBody, first: int) -> Iterator[None]:
    """Go back to the very same bytes after an exception in what changes tokens from ``first``.

    Where the pool has no room for them any more, they are computed again when they are needed.
    """
    segments, logits, computed = body.segments, body.logits, body.computed
    rope, taint = body.rope.fork(), body.taint.copy()
    saved = body.held.lift(first, body.tokens)
    try:
        yield
    except BaseException as error:
        body.held.crop(first)
        if not body.held.put_or_leave(saved, body.model.rotation):
            body.reason = f'an edit failed: {type(error).__name__}'
        body.segments, body.logits, body.computed = segments, logits, computed
        body.rope, body.taint = rope, taint
        raise


def _lift(body: StateBody, place: int, fresh: int) -> _Lifted:
    segment, start = body.segments[place], body.start(place)
    done = body.whole(start + min(fresh, len(segment.tokens))) - start
    first, end = start + done, start + len(segment.tokens)
    return _Lifted(
        segment, done, body.held.lift(first, end), body.rope.of(torch.arange(first, end)),
        body.next_spot(first), body.taint.parts(first, end),
    )


def _put(body: StateBody, lifted: _Lifted, kind: str) -> None:
    segment, done = lifted.segment, lifted.done
    place, start = len(body.segments), body.tokens
    if done:
        body.segments = (*body.segments, replace(segment, tokens=segment.tokens[:done]))
        body.catch_up()
    if done == len(segment.tokens):
        return
    first = start + done
    distance = body.next_spot(first) - lifted.base
    body.held.put(lifted.held, distance, body.model.rotation)
    body.rope.extend(first, lifted.spots + distance)
    body.taint.put(first, lifted.fed)
    own = worst(segment.exactness, approximate(kind))
    body.segments = (*body.segments[:place], replace(segment, exactness=own))

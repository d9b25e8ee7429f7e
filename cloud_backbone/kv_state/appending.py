# SPDX-License-Identifier: Apache-2.0
"""The edits that are exact for any causal model: append at the end, crop the end."""

from __future__ import annotations

from dataclasses import replace

from cloud_backbone.kv_state.errors import LayoutError, LostHistory, StaleMark
from cloud_backbone.kv_state.receipt import Mark
from cloud_backbone.kv_state.segment import chain_hash, first_tokens, LAYOUT, Segment
from cloud_backbone.kv_state.state_body import check_image, StateBody


def append(body: StateBody, new: Segment) -> int:
    """Add tokens to the last segment, or begin a later one; return how many were computed.

    Raises:
        LayoutError: the segment is unknown, or others stand behind its place.
        MissingImage: its image has no pixels.
    """
    if not new.tokens:
        return 0
    check_image(body.model, new)
    with body.all_or_nothing(len(body.held)):
        add(body, new)
        return body.catch_up()


def add(body: StateBody, new: Segment) -> None:
    """Add tokens to the table alone."""
    last = body.segments[-1] if body.segments else None
    if last is None or last.name != new.name:
        check_order(body, new.name)
        body.segments = (*body.segments, new)
        return
    if last.image is not None and new.image is not None:
        raise LayoutError(f'segment {new.name!r} has its image already: crop it first')
    epochs = [epoch for epoch in (last.epoch, new.epoch) if epoch is not None]
    body.set_segment(len(body.segments) - 1, replace(
        last, tokens=(*last.tokens, *new.tokens), epoch=max(epochs, default=None),
        image=last.image or new.image,
    ))


def check_order(body: StateBody, name: str) -> None:
    """Refuse a new segment that does not come behind all others.

    Raises:
        LayoutError: its name is unknown, or others stand behind its place.
    """
    if name not in LAYOUT:
        raise LayoutError(f'no segment is called {name!r}; known are {", ".join(LAYOUT)}')
    behind = [one.name for one in body.segments if LAYOUT.index(one.name) >= LAYOUT.index(name)]
    if behind:
        raise LayoutError(
            f'{name!r} cannot be appended behind {", ".join(behind)}: crop them first, or use '
            'commit_step or replace'
        )


def crop(body: StateBody, to: Mark) -> int:
    """Forget all tokens behind a mark; return 0: none is computed.

    Raises:
        StaleMark: the tokens before it have changed.
        LostHistory: it cannot be reached.
    """
    if to.tokens > body.tokens or to.prefix_hash != chain_hash(
        first_tokens(body.segments, to.tokens)
    ):
        raise StaleMark(to.tokens, body.tokens)
    near = body.held.reachable(min(to.tokens, len(body.held)))
    if near < min(to.tokens, len(body.held)):
        raise LostHistory(to.tokens, body.held.min_pos(), 'a sliding window has moved past it')
    if body.whole(to.tokens) != to.tokens:
        raise LayoutError(f'{to.tokens} tokens cut an image in two')
    for place, segment in enumerate(body.segments):
        first = body.start(place)
        end = first + len(segment.tokens)
        if first < to.tokens < end and not body.holds(first, min(end, len(body.held))):
            raise LostHistory(
                to.tokens, end, f'policy {body.policy.name} has dropped tokens of {segment.name}'
            )
    body.cut(to.tokens)
    return 0

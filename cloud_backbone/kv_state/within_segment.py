# SPDX-License-Identifier: Apache-2.0
"""Which tokens of a segment an edit leaves as they are: what stands before and behind a change.

A segment is parted at its change for the time of an edit, and joined afterwards. Knows no mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from cloud_backbone.kv_state.exactness import worst
from cloud_backbone.kv_state.segment import Segment
from cloud_backbone.kv_state.splicing import Kept
from cloud_backbone.kv_state.state_body import StateBody


@contextmanager
def parted(body: StateBody, place: int, new: Segment) -> Iterator[list[Kept | Segment]]:
    """Part the segment at ``place`` where ``new`` differs; yield the table that is wanted.

    What shows another observation, or an image, differs as a whole: the same words are then said
    of something else.
    """
    old, before = body.segments[place], body.segments
    head, tail = 0, 0
    if (old.epoch, old.image) == (new.epoch, None) and new.image is None:
        head, tail = _shared(old.tokens, new.tokens)
    end = len(old.tokens) - tail
    parts = [part for part in (old.tokens[:head], old.tokens[head:end], old.tokens[end:]) if part]
    change = replace(new, tokens=new.tokens[head:len(new.tokens) - tail])
    body.segments = (
        *before[:place], *(replace(old, tokens=part) for part in parts), *before[place + 1:],
    )
    behind = place + len(parts) - bool(tail)
    order: list[Kept | Segment] = [
        *(Kept(one) for one in range(place + bool(head))), *([change] if change.tokens else []),
        *(Kept(one) for one in range(behind, len(body.segments))),
    ]
    try:
        yield order
    finally:
        body.segments = joined(body.segments)


def joined(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return segments with neighbours of one name made one."""
    found = list[Segment]()
    for segment in segments:
        if not found or found[-1].name != segment.name:
            found.append(segment)
            continue
        last = found[-1]
        epochs = [one for one in (last.epoch, segment.epoch) if one is not None]
        found[-1] = replace(
            last, tokens=(*last.tokens, *segment.tokens), epoch=max(epochs, default=None),
            exactness=worst(last.exactness, segment.exactness),
        )
    return tuple(found)


def _shared(old: Sequence[int], new: Sequence[int]) -> tuple[int, int]:
    """Count the first and the last tokens that both have; no token counts twice."""
    least = min(len(old), len(new))
    head = next((at for at in range(least) if old[at] != new[at]), least)
    tail = next((at for at in range(least - head) if old[-1 - at] != new[-1 - at]), least - head)
    return head, tail

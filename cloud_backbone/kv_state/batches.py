# SPDX-License-Identifier: Apache-2.0
"""In which batches the tokens that a cache lacks go through the model.

One image at most goes with a batch, and none is cut. Knows tokens and segments only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cloud_backbone.kv_state.segment import image_span, Segment

MOST = 512
"""Tokens of a batch; an image may have more."""


@dataclass(frozen=True)
class Piece:
    """Neighbouring tokens of one segment."""

    place: int
    """Of the segment in the table."""
    first: int
    """First token within the segment."""
    end: int
    """Last one + 1."""
    start: int
    """Tokens of the table before it."""
    shows: bool
    """Whether the image is in it."""


def batches(
    segments: Sequence[Segment], held: int, image_token: int | None, apart: bool
) -> list[list[Piece]]:
    """Return the tokens behind the first ``held``, in batches of at least one piece.

    Args:
        segments: of the table.
        held: tokens that the cache holds.
        image_token: holds the place of an image; None: the model sees none.
        apart: whether each segment goes by itself.
    """
    found = list[list[Piece]]()
    start = 0
    for place, segment in enumerate(segments):
        for piece in _pieces(segment, place, start, max(held - start, 0), image_token):
            if found and not apart and _fits(found[-1], piece):
                found[-1].append(piece)
            else:
                found.append([piece])
        start += len(segment.tokens)
    return found


def _fits(batch: Sequence[Piece], piece: Piece) -> bool:
    tokens = piece.end - piece.first + sum(one.end - one.first for one in batch)
    return tokens <= MOST and sum(one.shows for one in (*batch, piece)) <= 1


def _pieces(
    segment: Segment, place: int, start: int, done: int, image_token: int | None
) -> list[Piece]:
    span = image_span(segment, image_token)
    pieces, first = list[Piece](), done
    while first < len(segment.tokens):
        end = min(first + MOST, len(segment.tokens))
        if span is not None and span[0] < end < span[1]:
            end = span[0] if span[0] > first else span[1]
        shows = span is not None and first <= span[0] < end
        pieces.append(Piece(place, first, end, start + first, shows))
        first = end
    return pieces

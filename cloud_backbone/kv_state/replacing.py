# SPDX-License-Identifier: Apache-2.0
"""Edits in the middle: replace, drop, move, and the agent's own step.

Each can be done exactly, by computing all that stands behind anew, or approximately, which a gate
has to allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from cloud_backbone.kv_state import appending
from cloud_backbone.kv_state.errors import LayoutError
from cloud_backbone.kv_state.gate import Gate
from cloud_backbone.kv_state.segment import Segment
from cloud_backbone.kv_state.splicing import Kept, splice
from cloud_backbone.kv_state.state_body import check_image, StateBody
from cloud_backbone.kv_state.within_segment import joined, parted


class Edit(Enum):
    """How an edit in the middle treats what stands behind it."""

    RECOMPUTE = 'recompute'
    """Compute it anew: exact."""
    ERRATUM = 'erratum'
    """Leave the old text, append the new one at the end; only for ``replace``."""
    PARTIAL = 'partial'
    """Compute the first tokens of it anew, keep the others as they are."""
    STALE = 'stale'
    """Keep it as it is, at its new positions."""


@dataclass(frozen=True)
class Mode:
    """An edit and its parameter. ``RECOMPUTE``, ``ERRATUM`` and ``STALE`` have none."""

    edit: Edit
    fresh: int = 0
    """Tokens behind the change that PARTIAL computes anew."""

    @property
    def kind(self) -> str:
        """Name of what this mode makes approximate, for gates and classes."""
        return self.edit.value if self.edit is not Edit.PARTIAL else f'partial({self.fresh})'


RECOMPUTE = Mode(Edit.RECOMPUTE)
ERRATUM = Mode(Edit.ERRATUM)
STALE = Mode(Edit.STALE)


def partial(fresh: int) -> Mode:
    """Return the mode that computes ``fresh`` tokens behind the change anew.

    Raises:
        LayoutError: not even one.
    """
    if fresh < 1:
        raise LayoutError(f'a partial edit computes 1 token or more, not {fresh}: use STALE')
    return Mode(Edit.PARTIAL, fresh)


def replace(body: StateBody, new: Segment, mode: Mode, gate: Gate) -> int:
    """Put other tokens into a segment; return how many were computed.

    Raises:
        LayoutError: there is no such segment, or nothing to put there.
        ApproxRefused: the gate does not allow the mode.
        UnsupportedMove: the mode keeps tokens, and this cache cannot.
    """
    place = body.place(new.name)
    if not new.tokens:
        raise LayoutError(f'segment {new.name!r} cannot be replaced by nothing: drop it')
    check_image(body.model, new)
    if mode.edit is Edit.ERRATUM and not _is_last(body, place):
        gate.check(body.model.fingerprint, 'replace', mode.kind)
        last = body.segments[-1].name
        return appending.append(body, Segment(last, new.tokens, new.epoch, new.image))
    with parted(body, place, new) as order:
        if mode.edit is not Edit.RECOMPUTE and _keeps_behind(order):
            gate.check(body.model.fingerprint, 'replace', mode.kind)
        return _arrange(body, order, mode, 'replace')


def drop(body: StateBody, name: str, mode: Mode, gate: Gate) -> int:
    """Take a segment out; return how many tokens were computed.

    Raises:
        LayoutError: there is no such segment, or the mode is ERRATUM.
        ApproxRefused: the gate does not allow the mode.
        UnsupportedMove: the mode keeps tokens, and this cache cannot.
    """
    place = body.place(name)
    if mode.edit is not Edit.RECOMPUTE and not _is_last(body, place):
        _check(body, 'drop', mode, gate)
    order = [Kept(one) for one in range(len(body.segments)) if one != place]
    return _arrange(body, order, mode, 'drop')


def move(body: StateBody, name: str, index: int, mode: Mode, gate: Gate) -> int:
    """Take a segment to another place in the order; return how many tokens were computed.

    Raises:
        LayoutError: there is no such segment or place, or the mode is ERRATUM.
        ApproxRefused: the gate does not allow the mode.
        UnsupportedMove: the mode keeps tokens, and this cache cannot.
    """
    place, count = body.place(name), len(body.segments)
    if not 0 <= index < count:
        raise LayoutError(f'no place {index}; there are 0 to {count - 1}')
    if index == place:
        return 0
    if mode.edit is not Edit.RECOMPUTE:
        _check(body, 'move', mode, gate)
    others = [one for one in range(count) if one != place]
    places = [*others[:index], place, *others[index:]]
    return _arrange(body, [Kept(one) for one in places], mode, 'move')


def commit_step(body: StateBody, history: Segment, scene: Segment) -> int:
    """Crop scene and scratch, append to history, append the new scene; count what was computed.

    Raises:
        LayoutError: a segment is named otherwise.
    """
    volatile = [place for place, one in enumerate(body.segments)
                if one.name in ('scene', 'scratch')]
    first = body.start(volatile[0]) if volatile else body.tokens
    kept = body.held.reachable(min(first, len(body.held)))
    check_image(body.model, scene)
    with body.all_or_nothing(kept):
        body.cut(first)
        for segment in (history, scene):
            if segment.tokens:
                appending.add(body, segment)
        return body.catch_up()


def _is_last(body: StateBody, place: int) -> bool:
    return place == len(body.segments) - 1


def _check(body: StateBody, operation: str, mode: Mode, gate: Gate) -> None:
    if mode.edit is Edit.ERRATUM:
        raise LayoutError('ERRATUM is a mode of replace alone: use RECOMPUTE, STALE or partial')
    gate.check(body.model.fingerprint, operation, mode.kind)


def _arrange(
    body: StateBody, order: Sequence[Kept | Segment], mode: Mode, operation: str
) -> int:
    """Bring the table into an order, exactly or by keeping what was computed."""
    same = _same(order)
    if mode.edit is not Edit.RECOMPUTE and _keeps_behind(order):
        return splice(body, order, f'{operation} {mode.kind}', mode.fresh)
    first = body.start(same)
    kept = body.held.reachable(min(first, len(body.held)))
    with body.all_or_nothing(kept):
        old = body.segments
        body.cut(first)
        body.segments = joined((*body.segments, *(
            old[part.place] if isinstance(part, Kept) else part for part in order[same:]
        )))
        return body.catch_up()


def _same(order: Sequence[Kept | Segment]) -> int:
    """Count the first parts that stay where they are."""
    return next((place for place, part in enumerate(order) if part != Kept(place)), len(order))


def _keeps_behind(order: Sequence[Kept | Segment]) -> bool:
    """Say whether something behind the first change is kept."""
    return any(isinstance(part, Kept) for part in order[_same(order):])

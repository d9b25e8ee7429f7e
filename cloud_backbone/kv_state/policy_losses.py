# SPDX-License-Identifier: Apache-2.0
"""What a cache policy does to segments: which it must spare, and which it has touched.

Knows segments as spans of positions; knows no edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cloud_backbone.kv_cache.errors import BudgetError, EvictedError
from cloud_backbone.kv_cache.kv_session import KVSession
from cloud_backbone.kv_state.exactness import approximate
from cloud_backbone.kv_state.segment import Segment, STABLE


def pin_stable(session: KVSession, segments: Sequence[Segment]) -> None:
    """Protect the stable segments, as far as the budget allows; nothing else stays pinned."""
    session.pins.clear()
    first = 0
    for segment in segments:
        end = first + len(segment.tokens)
        if segment.name in STABLE and end > first:
            try:
                session.pin(first, end)
            except (BudgetError, EvictedError):
                pass  # the policy ranks these tokens like all others
        first = end


def with_losses(session: KVSession, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return the segments; those with dropped or encoded tokens are marked approximate."""
    marked, first = list[Segment](), 0
    for segment in segments:
        end = first + len(segment.tokens)
        if segment.exactness.exact and not _is_raw(session, first, end):
            segment = replace(segment, exactness=approximate(session.policy.name))
        marked.append(segment)
        first = end
    return tuple(marked)


def _is_raw(session: KVSession, first: int, end: int) -> bool:
    """Say whether all tokens of [first, end) are held as they were computed."""
    if session.policy.raw_dtype is not None:
        return False
    held = [
        ((row.open.positions >= first) & (row.open.positions < end)).sum(1)
        for row in session.rows.values()
    ]
    return all(bool((count == end - first).all()) for count in held)

# SPDX-License-Identifier: Apache-2.0
"""Is the link good enough that the backbone plans? With hysteresis, so that it does not flap.

To the small planner at once; back to the backbone only after the link was good for a while,
without a break. Looks at states that it is given; measures nothing, asks nobody.
"""

from __future__ import annotations

import threading

from onboard_decoder.clock import to_ns
from onboard_decoder.config import OffloadSettings
from onboard_decoder.planner_port import Choice, Link, LinkQuality, PlannerState, Source

_TURN_BYTES = 8000  # a small image and a sentence, for a guess before the first answer


class LinkJudge:
    """Says who is to plan, from the states of the link in the order of time. Thread-safe."""

    def __init__(self, settings: OffloadSettings, now_ns: int) -> None:
        """Begin with the backbone; connecting may take as long as a late answer [ns]."""
        self._settings, self._lock = settings, threading.Lock()
        self._began_ns = now_ns
        self._good_since_ns: int | None = None
        self._has_been_ready = False
        self._choice = Choice(Source.CLOUD, 'the backbone comes first')

    def judge(self, state: PlannerState, now_ns: int, owed_s: float = 0.0) -> Choice:
        """Return who is to plan, now that the link is like this.

        ``owed_s`` is for how long the backbone has owed an answer that came from elsewhere [s].
        """
        with self._lock:
            self._has_been_ready |= state.link is Link.READY
            if self._choice.source is Source.CLOUD:
                self._perhaps_leave(state, now_ns, owed_s)
            else:
                self._perhaps_return(state, now_ns, owed_s)
            return self._choice

    def _perhaps_leave(self, state: PlannerState, now_ns: int, owed_s: float) -> None:
        if state.link is not Link.READY:
            is_early = now_ns - self._began_ns <= to_ns(self._settings.late_s)
            if not self._has_been_ready and is_early and state.link is Link.CONNECTING:
                return
            self._change(Source.ONBOARD, f'link is {state.link.value}')
            return
        expected_s = expected_answer_s(state.quality)
        if expected_s is not None and expected_s > self._settings.enter_s:
            self._change(
                Source.ONBOARD, f'an answer is expected to take {expected_s:.2f} s, '
                f'more than {self._settings.enter_s:g} s')
        elif owed_s > self._settings.enter_s:
            self._change(Source.ONBOARD, f'the backbone has owed an answer for {owed_s:.2f} s')

    def _perhaps_return(self, state: PlannerState, now_ns: int, owed_s: float) -> None:
        expected_s = expected_answer_s(state.quality)
        is_fast = expected_s is None or expected_s <= self._settings.leave_s
        is_fast = is_fast and owed_s <= self._settings.leave_s
        if state.link is not Link.READY or not is_fast:
            self._good_since_ns = None
            return
        if self._good_since_ns is None:
            self._good_since_ns = now_ns
        good_ns = now_ns - self._good_since_ns
        if good_ns >= to_ns(self._settings.dwell_s):
            self._change(Source.CLOUD, f'the link has been good for {self._settings.dwell_s:g} s')

    def _change(self, source: Source, reason: str) -> None:
        self._choice, self._good_since_ns = Choice(source, reason), None


def expected_answer_s(quality: LinkQuality | None) -> float | None:
    """Return how long an answer will probably take [s], None where nothing is known."""
    if quality is None:
        return None
    known = [
        seconds for seconds in (
            quality.answer_s, quality.round_trip_s, quality.round_trip_worst_s)
        if seconds is not None
    ]
    if quality.answer_s is None and quality.bytes_per_s:
        known.append((quality.round_trip_s or 0.0) + _TURN_BYTES / quality.bytes_per_s)
    return max(known, default=None)

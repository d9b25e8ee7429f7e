# SPDX-License-Identifier: Apache-2.0
"""How good a link was of late: round trips, answers, uplink. Forgets what is long ago.

Is told durations by whoever measured them; sends nothing. Several threads may write and read.
"""

from collections import deque
from collections.abc import Iterable
from statistics import median

from onboard_decoder.clock import to_ns, to_s
from onboard_decoder.planner_port import LinkQuality

_TRIPS_S, _ANSWERS_S, _UPLOADS_S = 5.0, 60.0, 60.0  # what lies longer back does not count
_SMOOTHING = 1 / 8  # as TCP smooths its round trips
_SHORTEST_UPLOAD_NS = to_ns(0.001)  # below it the time is that of the machines, not of the link

Noted = deque[tuple[int, float]]  # when [ns], what


class LinkMeter:
    """Keeps the newest measurements of each kind."""

    def __init__(self) -> None:
        self._trips: Noted = deque(maxlen=64)
        self._answers: Noted = deque(maxlen=8)
        self._uploads: Noted = deque(maxlen=8)
        self._smoothed_s: float | None = None

    def trip(self, now_ns: int, duration_ns: int) -> None:
        """Note the round trip of a small message [ns]."""
        duration_s = to_s(duration_ns)
        if self._smoothed_s is None or not _since(self._trips, now_ns, _TRIPS_S):
            self._smoothed_s = duration_s
        self._smoothed_s += _SMOOTHING * (duration_s - self._smoothed_s)
        self._trips.append((now_ns, duration_s))

    def answer(self, now_ns: int, duration_ns: int) -> None:
        """Note how long the answer to a turn took [ns], or how long none came."""
        self._answers.append((now_ns, to_s(duration_ns)))

    def upload(self, now_ns: int, size: int, duration_ns: int) -> None:
        """Note a message of some bytes and the time [ns] for which it kept the uplink busy."""
        rate = size / to_s(max(duration_ns, _SHORTEST_UPLOAD_NS))
        self._uploads.append((now_ns, rate))

    def quality(self, now_ns: int, waiting_ns: int = 0) -> LinkQuality:
        """Return what is known; ``waiting_ns`` is the age of a small message under way."""
        trips = _since(self._trips, now_ns, _TRIPS_S)
        answers = _since(self._answers, now_ns, _ANSWERS_S)
        uploads = _since(self._uploads, now_ns, _UPLOADS_S)
        return LinkQuality(
            round_trip_s=self._smoothed_s if trips else None,
            round_trip_worst_s=max([*trips, to_s(waiting_ns)]) if trips or waiting_ns else None,
            answer_s=median(answers) if answers else None,
            bytes_per_s=median(uploads) if uploads else None,
        )


def _since(noted: Iterable[tuple[int, float]], now_ns: int, window_s: float) -> list[float]:
    """Return what was noted within a window [s] before now."""
    oldest_ns = now_ns - to_ns(window_s)
    return [value for at_ns, value in tuple(noted) if at_ns >= oldest_ns]

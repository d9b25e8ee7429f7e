# SPDX-License-Identifier: Apache-2.0
"""Where the robot's time comes from: the machine, or whoever steps a simulation.

Knows nothing of ROS time; every duration and deadline of this package is on one such clock.
"""

import threading
import time
from typing import Protocol

NS_PER_S = 1_000_000_000


class Clock(Protocol):
    """A monotonic clock."""

    def now_ns(self) -> int:
        """Return the time [ns]; never goes back, comparable to nothing but itself."""
        ...

    def sleep_until(self, deadline_ns: int) -> None:
        """Return at the deadline [ns] or later; at once if it has passed."""
        ...


class MonotonicClock:
    """The machine's monotonic clock."""

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC [ns]."""
        return time.monotonic_ns()

    def sleep_until(self, deadline_ns: int) -> None:
        """Sleep to an absolute deadline [ns], so that errors do not add up."""
        remaining_ns = deadline_ns - time.monotonic_ns()
        if remaining_ns > 0:
            time.sleep(remaining_ns / NS_PER_S)


class ManualClock:
    """A clock that moves when told: lockstep with simulated time."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns
        self._moved = threading.Condition()

    def now_ns(self) -> int:
        """Return the time that was last set [ns]."""
        return self._now_ns

    def advance(self, duration_ns: int) -> None:
        """Move forward [ns]. Raises ValueError for a negative duration."""
        if duration_ns < 0:
            raise ValueError(f'cannot advance by {duration_ns} ns; a clock never goes back')
        with self._moved:
            self._now_ns += duration_ns
            self._moved.notify_all()

    def sleep_until(self, deadline_ns: int) -> None:
        """Block until somebody has advanced the clock to the deadline [ns]."""
        with self._moved:
            self._moved.wait_for(lambda: self._now_ns >= deadline_ns)


def to_ns(seconds: float) -> int:
    """Convert [s] to [ns]."""
    return round(seconds * NS_PER_S)


def to_s(nanoseconds: int) -> float:
    """Convert [ns] to [s]."""
    return nanoseconds / NS_PER_S

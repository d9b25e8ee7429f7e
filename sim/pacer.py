# SPDX-License-Identifier: Apache-2.0
"""Keeps a loop in step with the wall clock, on absolute deadlines.

A loop that is late for a moment catches up; one that is late for long gives up the lost time
instead of running in bursts. Knows no simulation; clock and sleep are passed in.
"""

from __future__ import annotations

from collections.abc import Callable
import time


class Pacer:
    """Deadlines of a loop.

    Attributes:
        lost_s: time given up so far because the loop was too slow.
    """

    def __init__(
        self,
        patience_s: float = 0.1,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Start now.

        Args:
            patience_s: how far behind the loop may fall before time is given up.
            clock: monotonic time [s].
            sleep: waits for a time [s].
        """
        self._patience_s = patience_s
        self._clock = clock
        self._sleep = sleep
        self._deadline_s = clock()
        self.lost_s = 0.0

    def wait(self, period_s: float) -> None:
        """Sleep until one period after the last deadline; not at all if that is past."""
        self._deadline_s += period_s
        left_s = self._deadline_s - self._clock()
        if left_s > 0:
            self._sleep(left_s)
        elif -left_s > self._patience_s:
            self.lost_s -= left_s
            self._deadline_s -= left_s

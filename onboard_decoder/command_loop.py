# SPDX-License-Identifier: Apache-2.0
"""Calls ``tick`` once a period on absolute deadlines, in a thread of its own.

A tick that comes too late is skipped and counted, never made up for in a burst. Knows no robot and
no ROS; waits for nothing but the clock.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
import logging
import threading

import numpy as np
from onboard_decoder.clock import Clock, NS_PER_S, to_ns
from onboard_decoder.realtime import Priority

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoopStatistics:
    """What the loop did so far.

    ``rate_hz`` is over all ticks; jitter is the lateness of the newest ticks [ms], and periods are
    those between them: a burst would show as a short one.
    """

    tick_count: int
    missed_count: int
    error_count: int
    rate_hz: float
    jitter_ms_p50: float
    jitter_ms_max: float
    period_ms_min: float
    period_ms_max: float
    period_error_ms_p50: float
    work_ms_max: float


class CommandLoop:
    """Runs until stopped."""

    def __init__(
        self,
        tick: Callable[[], object],
        period_s: float,
        clock: Clock,
        priority: Priority | None = None,
        window: int = 500,
    ) -> None:
        """Prepare the loop.

        Args:
          tick: what to do each period; must not wait.
          period_s: the period [s].
          clock: real or manual.
          priority: taken by the loop's thread when it starts; the process's own where None.
          window: ticks that the statistics look back on.
        """
        self._tick, self._period_ns, self._clock = tick, to_ns(period_s), clock
        self._priority = priority
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._late_ns: deque[int] = deque(maxlen=window)
        self._started_ns: deque[int] = deque(maxlen=window)
        self._first_ns: int | None = None
        self._work_ns: deque[int] = deque(maxlen=window)
        self._tick_count = self._missed_count = self._error_count = 0

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name='command-loop', daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Let the tick under way end and join the thread; idempotent."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def run_once(self, deadline_ns: int) -> int:
        """Wait for a deadline [ns], tick, and return the next deadline to wait for [ns]."""
        self._clock.sleep_until(deadline_ns)
        started_ns = self._clock.now_ns()
        self._late_ns.append(started_ns - deadline_ns)
        if self._first_ns is None:
            self._first_ns = started_ns
        self._started_ns.append(started_ns)
        self._tick_count += 1
        try:
            self._tick()
        except Exception:
            # The loop must outlive any fault of one tick; the arm would fall silent otherwise.
            self._error_count += 1
            if self._error_count == 1:
                log.exception('tick failed; further failures are only counted')
        ended_ns = self._clock.now_ns()
        self._work_ns.append(ended_ns - started_ns)
        return self._next(deadline_ns, ended_ns)

    def statistics(self) -> LoopStatistics:
        """Return what the loop did so far."""
        late, work = list(self._late_ns) or [0], list(self._work_ns) or [0]
        started_ns = list(self._started_ns) or [0]
        periods_ns = np.diff(started_ns) if len(started_ns) > 1 else np.array([self._period_ns])
        span_ns = 0 if self._first_ns is None else started_ns[-1] - self._first_ns
        return LoopStatistics(
            tick_count=self._tick_count,
            missed_count=self._missed_count,
            error_count=self._error_count,
            rate_hz=(self._tick_count - 1) * NS_PER_S / span_ns if span_ns else 0.0,
            jitter_ms_p50=float(np.median(late)) / 1e6,
            jitter_ms_max=max(late) / 1e6,
            period_ms_min=float(periods_ns.min()) / 1e6,
            period_ms_max=float(periods_ns.max()) / 1e6,
            period_error_ms_p50=float(np.median(np.abs(periods_ns - self._period_ns))) / 1e6,
            work_ms_max=max(work) / 1e6,
        )

    def _next(self, deadline_ns: int, now_ns: int) -> int:
        """Return the first deadline of the grid that is not over; count those that are."""
        following_ns = deadline_ns + self._period_ns
        if now_ns < following_ns + self._period_ns:
            return following_ns  # in time, or late by less than a period: not missed
        missed = (now_ns - following_ns) // self._period_ns
        self._missed_count += missed
        return following_ns + missed * self._period_ns

    def _run(self) -> None:
        """Tick until stopped."""
        if self._priority is not None:
            self._priority.take()
        deadline_ns = self._clock.now_ns()
        while not self._stopped.is_set():
            deadline_ns = self.run_once(deadline_ns)

# SPDX-License-Identifier: Apache-2.0
"""How long an arm stands between two motions because the next one must be asked for.

Counts from the last moment of one motion to the first of the next; the start of a task, and pauses
between the steps of one answer, do not count. Reads the agent's events, as a sink of them.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from onboard_decoder.agent.transcript import Event


class Standstill:
    """Watches one robot, tick by tick; ``ms`` are the standstills so far [ms]."""

    def __init__(self) -> None:
        self.ms: list[float] = []
        self._has_moved = self._is_answered = False
        self._since_s: float | None = None

    def write(self, event: Event) -> None:
        """Note an event; an answer is one that is taken up now."""
        is_motion = event['event'] == 'answer' and event['outcome'] == 'steps'
        self._is_answered = self._is_answered or is_motion

    def tick(self, now_s: float, is_at_rest: bool) -> None:
        """Note whether the arm is led anywhere at a time [s]; 0 ms where it never stood."""
        if is_at_rest:
            self._since_s = now_s if self._since_s is None else self._since_s
            return
        since_s = now_s if self._since_s is None else self._since_s
        if self._has_moved and self._is_answered:
            self.ms.append(round((now_s - since_s) * 1e3, 1))
        self._since_s, self._has_moved, self._is_answered = None, True, False


def median_ms(standstills: Iterable[Iterable[float]]) -> float | None:
    """Return the median over many runs [ms]; None where no arm stood between two motions."""
    every: list[Any] = [ms for run in standstills for ms in run]
    return round(float(np.median(every)), 1) if every else None

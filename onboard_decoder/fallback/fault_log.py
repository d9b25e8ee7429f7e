# SPDX-License-Identifier: Apache-2.0
"""When each fault came and went: an event at either end, and a count for people.

Knows faults and the time; reacts to nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from onboard_decoder.clock import to_s
from onboard_decoder.fallback.watchdog import Fault, REACTIONS

Log = Callable[..., None]


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """How often a fault has come, and for how long it has been there [s]; None: it is not."""

    count: int
    lasts_s: float | None


class FaultLog:
    """Follows the faults of one robot."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._since_ns: dict[Fault, int] = {}
        self._counts: dict[Fault, int] = {}

    def update(
        self, faults: Iterable[Fault], now_ns: int, details: Mapping[Fault, str]
    ) -> None:
        """Note the faults of this moment; ``details`` has a sentence about some of them."""
        present = set(faults)
        for fault in [known for known in self._since_ns if known not in present]:
            lasted_s = round(to_s(now_ns - self._since_ns.pop(fault)), 6)
            self._log('fault_over', fault=fault.value, lasted_s=lasted_s)
        for fault in present - set(self._since_ns):
            self._since_ns[fault] = now_ns
            self._counts[fault] = self._counts.get(fault, 0) + 1
            self._log(
                'fault', fault=fault.value, reaction=REACTIONS[fault].word,
                detail=details.get(fault, ''),
            )

    def records(self, now_ns: int) -> dict[Fault, FaultRecord]:
        """Return what is known of every fault that has come at least once."""
        since_ns = dict(self._since_ns)
        return {
            fault: FaultRecord(
                count, to_s(now_ns - since_ns[fault]) if fault in since_ns else None
            )
            for fault, count in dict(self._counts).items()
        }

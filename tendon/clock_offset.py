# SPDX-License-Identifier: Apache-2.0
"""By how much another machine's monotonic clock is ahead of this one's, with a bound.

For drawing both machines on one timeline, and for nothing else: no decision needs it. Asks by the
call ``ClockSync``, never by turns, whose ways there and back take different times.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import threading
import time
from typing import Any

import grpc
from protos import planner_pb2, planner_pb2_grpc
from protos.protocol import CLIENT_OPTIONS

WINDOW = 64
PERIOD_S = 0.15
TIMEOUT_S = 1.0


@dataclass(frozen=True)
class Reading:
    """One question for the time [ns]; only ``there_ns`` is of the other machine's clock."""

    asked_ns: int
    there_ns: int
    answered_ns: int

    @property
    def round_trip_ns(self) -> int:
        """How long the question took [ns]."""
        return self.answered_ns - self.asked_ns


@dataclass(frozen=True)
class Offset:
    """The other clock minus this one is ``offset_ns``, plus or minus ``bound_ns``."""

    offset_ns: int
    bound_ns: int


def estimate(readings: Sequence[Reading]) -> Offset:
    """Return what the fastest question says: the less it took, the less it can be wrong.

    Raises:
      ValueError: without any reading.
    """
    best = min(readings, key=lambda reading: reading.round_trip_ns)
    middle_ns = (best.asked_ns + best.answered_ns) // 2
    # Rounded up: both halves of the round trip are within the bound.
    return Offset(best.there_ns - middle_ns, (best.round_trip_ns + 1) // 2 + 1)


def read_clock(stub: Any, now_ns: Callable[[], int] = time.monotonic_ns) -> Reading:
    """Ask once. Raises grpc.RpcError where there is no answer in time."""
    asked_ns = now_ns()
    answer = stub.ClockSync(planner_pb2.ClockSyncRequest(), timeout=TIMEOUT_S)
    return Reading(asked_ns, answer.monotonic_ns, now_ns())


class ClockWatch:
    """Asks a backbone for its time again and again. Use as a context manager.

    Args:
      address: host:port of the backbone.
    """

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, options=list(CLIENT_OPTIONS))
        self._readings: list[Reading] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name='clock-watch', daemon=True)

    def __enter__(self) -> 'ClockWatch':
        """Begin to ask."""
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop asking; what was found stays."""
        self._stopped.set()
        self._thread.join(2 * TIMEOUT_S)
        self._channel.close()

    def near(self, time_ns: int) -> Offset | None:
        """Return the offset at a time of this clock [ns], from the readings next to it."""
        near = sorted(self._readings, key=lambda one: abs(one.asked_ns - time_ns))[:WINDOW]
        return estimate(near) if near else None

    def _watch(self) -> None:
        stub = planner_pb2_grpc.PlannerStub(self._channel)
        while not self._stopped.wait(PERIOD_S):
            try:
                self._readings.append(read_clock(stub))
            except grpc.RpcError:
                continue  # the link is away; there will be others

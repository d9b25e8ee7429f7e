# SPDX-License-Identifier: Apache-2.0
"""Stopwatch of one turn: durations on one machine's monotonic clock, keyed by stage.

Knows the stages of ``latency.proto`` and nothing about what happens in them. Durations of two
machines may be added; their clocks are never compared.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import time

from protos import latency_pb2

STAGES = tuple(
    name.removeprefix('STAGE_').lower()
    for name in latency_pb2.Stage.keys()
    if name != 'STAGE_UNSPECIFIED'
)


class Stopwatch:
    """Collects one duration per stage [ns]; a stage that is measured twice adds up."""

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self.durations_ns: dict[str, int] = {}

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Add the time spent inside the block to ``stage``."""
        start_ns = self._now_ns()
        try:
            yield
        finally:
            self.add(stage, self._now_ns() - start_ns)

    def add(self, stage: str, duration_ns: int) -> None:
        """Add a duration that was measured elsewhere. Raises ValueError for an unknown stage."""
        if stage not in STAGES:
            raise ValueError(f'unknown stage {stage!r}; stages are {", ".join(STAGES)}')
        self.durations_ns[stage] = self.durations_ns.get(stage, 0) + duration_ns


def to_trace(durations_ns: dict[str, int], arrived_ns: int = 0) -> latency_pb2.LatencyTrace:
    """Write durations [ns] as a message, in the order of the dict.

    ``arrived_ns`` is when the turn arrived, on the same clock; 0 if unknown.
    """
    trace = latency_pb2.LatencyTrace(arrived_monotonic_ns=arrived_ns)
    for stage, duration_ns in durations_ns.items():
        number = latency_pb2.Stage.Value(f'STAGE_{stage.upper()}')
        trace.stages.add(stage=number, duration_ns=duration_ns)
    return trace


def from_trace(trace: latency_pb2.LatencyTrace) -> dict[str, int]:
    """Read durations [ns] from a message; stages this side does not know are left out."""
    names = {number: name for name, number in latency_pb2.Stage.items()}
    return {
        names[entry.stage].removeprefix('STAGE_').lower(): entry.duration_ns
        for entry in trace.stages
        if entry.stage in names
    }

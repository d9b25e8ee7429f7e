# SPDX-License-Identifier: Apache-2.0
"""Follows the trace of a turn from its plan to the first command and the first motion.

The agent says which chunk is the first of a plan; the command loop says what it commanded; joints
say when the arm moved. Each of the three writes its own fields only.
"""

from collections import deque

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.chunk_maker import Made
from onboard_decoder.clock import NS_PER_S
from onboard_decoder.latency_budget import TurnTrace
from onboard_decoder.manifest import Manifest
from onboard_decoder.observation_intake import JointState

Array = NDArray[np.float64]

_MOVED_SHARE = 5e-4  # of a joint's range
_PATIENCE_NS = 2 * NS_PER_S


class TraceCollector:
    """Completes traces and keeps them until they are taken."""

    def __init__(self, manifest: Manifest, size: int = 1000) -> None:
        self._moved = _MOVED_SHARE * (manifest.column('upper') - manifest.column('lower'))
        self._trace: TurnTrace | None = None
        self._chunk_number = 0
        self._start: Array | None = None
        self._finished: deque[TurnTrace] = deque(maxlen=size)

    def watch(self, trace: TurnTrace, first: Made) -> None:
        """Follow a turn whose plan starts with this chunk."""
        if self._trace is not None:
            self._finish()
        trace.taken_ns, trace.decoded_ns = first.started_ns, first.ended_ns
        self._start, self._chunk_number = None, first.number
        self._trace = trace

    def close(self, trace: TurnTrace) -> None:
        """Keep a turn that leads to no command."""
        self._finished.append(trace)

    def commanded(self, chunk_number: int, filtered_ns: int, published_ns: int) -> None:
        """Note a command that was made from a chunk; called by the command loop."""
        trace = self._trace
        if trace is None or trace.published_ns is not None or chunk_number < self._chunk_number:
            return
        trace.filtered_ns = filtered_ns
        trace.published_ns = published_ns

    def felt(self, joints: JointState) -> None:
        """Note measured joints; finishes a trace when the arm moves, or does not for long."""
        trace = self._trace
        if trace is None or trace.published_ns is None or joints.stamp_ns < trace.published_ns:
            return
        if self._start is None:
            self._start = joints.positions
        elif (np.abs(joints.positions - self._start) > self._moved).any():
            trace.moved_ns = joints.stamp_ns
            self._finish()
        elif joints.stamp_ns - trace.published_ns > _PATIENCE_NS:
            self._finish()

    def take(self) -> list[TurnTrace]:
        """Return the finished traces and forget them."""
        taken = []
        while self._finished:
            taken.append(self._finished.popleft())
        return taken

    def flush(self) -> None:
        """Finish what is being followed, at the end of a run."""
        if self._trace is not None:
            self._finish()

    def _finish(self) -> None:
        """Keep the trace as it is."""
        if self._trace is not None:
            self._finished.append(self._trace)
        self._trace = None

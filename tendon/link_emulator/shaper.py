# SPDX-License-Identifier: Apache-2.0
"""When a packet comes out of one way of a link, if it does. Knows sizes and times, no packet.

A packet waits in a queue of limited size, leaves at the rate of the link, may then be lost on the
air, and arrives after the delay and a random extra, never before a packet that left earlier.
"""

from dataclasses import dataclass
import random

from tendon.link_emulator.loss import BurstLoss
from tendon.link_emulator.profile import Direction

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


@dataclass
class Counts:
    """What became of the packets of one way."""

    packets: int = 0
    packet_bytes: int = 0
    lost: int = 0  # on the air
    overflowed: int = 0  # found the queue full
    cut: int = 0  # while the link was away


class Shaper:
    """One way of a link. The same seed and the same packets give the same times."""

    def __init__(self, direction: Direction, seed: str) -> None:
        self._direction = direction
        self._rng = random.Random(seed)
        self._loss = BurstLoss(
            direction.loss, direction.burst, random.Random(f'{seed} loss')
        )
        self._free_ns = 0  # when the last packet has left the queue
        self._last_due_ns = 0
        self.counts = Counts()

    def due_ns(self, now_ns: int, size: int) -> int | None:
        """Return when a packet of ``size`` bytes that comes in now [ns] is out, or None if never.

        ``now_ns`` must not fall from call to call.
        """
        self.counts.packets += 1
        self.counts.packet_bytes += size
        left_ns = self._leave(now_ns, size)
        if left_ns is None:
            self.counts.overflowed += 1
            return None
        extra_ms = self._extra_ms()
        if self._loss.loses_next():
            self.counts.lost += 1
            return None
        due_ns = left_ns + round((self._direction.delay_ms + extra_ms) * NS_PER_MS)
        self._last_due_ns = max(due_ns, self._last_due_ns)
        return self._last_due_ns

    def _leave(self, now_ns: int, size: int) -> int | None:
        """Return when the packet has left the queue [ns], None if there is no room for it."""
        rate = self._direction.rate_mbit_s * 1e6 / 8  # bytes per second
        if not rate:
            return now_ns
        waiting_ns = max(0, self._free_ns - now_ns)
        if waiting_ns * rate / NS_PER_S + size > self._direction.queue_bytes:
            return None
        # Rounded up, so that the rate is never exceeded.
        self._free_ns = now_ns + waiting_ns - int(-size * NS_PER_S // rate)
        return self._free_ns

    def _extra_ms(self) -> float:
        mean_ms = self._direction.jitter_ms
        return self._rng.expovariate(1.0 / mean_ms) if mean_ms else 0.0

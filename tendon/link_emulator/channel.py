# SPDX-License-Identifier: Apache-2.0
"""Both ways of a link and the packets on them. Knows times it is given; no clock, no file.

While the link is away every packet that comes in is lost, and every one that would come out.
"""

from collections import deque
from enum import Enum

from tendon.link_emulator.profile import LinkProfile
from tendon.link_emulator.shaper import Counts, NS_PER_S, Shaper


class End(Enum):
    """The two ends of a link."""

    ROBOT = 'robot'
    BACKBONE = 'backbone'

    @property
    def other(self) -> 'End':
        """The end on the other side."""
        return End.BACKBONE if self is End.ROBOT else End.ROBOT


class Channel:
    """Takes packets at one end and gives them out at the other, later and in order.

    Args:
      profile: how the link is.
      seed: draws jitter and loss; each way has its own numbers.
    """

    def __init__(self, profile: LinkProfile, seed: int) -> None:
        self._shapers = {
            End.ROBOT: Shaper(profile.up, f'{seed} up'),
            End.BACKBONE: Shaper(profile.down, f'{seed} down'),
        }
        self._under_way: dict[End, deque[tuple[int, bytes]]] = {end: deque() for end in End}
        self._away_until_ns = 0

    def enter(self, end: End, packet: bytes, now_ns: int) -> None:
        """Take a packet that was sent at an end."""
        if self.is_away(now_ns):
            self.counts(end).cut += 1
            return
        due_ns = self._shapers[end].due_ns(now_ns, len(packet))
        if due_ns is not None:
            self._under_way[end].append((due_ns, packet))

    def leave(self, end: End, now_ns: int) -> list[tuple[int, bytes]]:
        """Return what comes out at an end by now, in order, with the times [ns] it was due."""
        under_way, out = self._under_way[end.other], []
        while under_way and under_way[0][0] <= now_ns:
            out.append(under_way.popleft())
        if out and self.is_away(now_ns):
            self.counts(end.other).cut += len(out)
            return []
        return out

    def next_due_ns(self) -> int | None:
        """Return when the next packet comes out [ns], None while there is none."""
        return min((queue[0][0] for queue in self._under_way.values() if queue), default=None)

    def cut(self, now_ns: int, length_s: float) -> None:
        """Let the link be away for a time [s]; 0 brings it back."""
        self._away_until_ns = now_ns + round(length_s * NS_PER_S)

    def is_away(self, now_ns: int) -> bool:
        """True while the link is cut."""
        return now_ns < self._away_until_ns

    def counts(self, end: End) -> Counts:
        """Return what became of the packets that were sent at an end."""
        return self._shapers[end].counts

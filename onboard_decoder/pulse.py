# SPDX-License-Identifier: Apache-2.0
"""Pings of one stream: when one is due, how long they took, and how long nothing was heard.

The next ping does not wait for the pong of the last, so a slow link is not a silent one. Only time
in which this process was able to listen counts as silence: after a pause of its own it listens
anew. Sends nothing and reads no clock; ``sound`` and ``answered`` may come from another thread.
"""

import itertools

from onboard_decoder.clock import to_ns, to_s
from onboard_decoder.link_meter import LinkMeter

_MOST_UNANSWERED = 100
_BETWEEN_UPLOADS_NS = to_ns(0.5)  # two pings more for each turn would cost more than they tell
_MOST_BETWEEN_LOOKS_NS = to_ns(0.1)  # what is beyond it this process slept through


class Pulse:
    """The heartbeat of one stream.

    Args:
      meter: told what is measured.
      period_s: time between two pings [s].
      now_ns: the time [ns].
    """

    def __init__(self, meter: LinkMeter, period_s: float, now_ns: int) -> None:
        self._meter, self._period_ns = meter, to_ns(period_s)
        self._due_ns = self._looked_ns = now_ns
        self._silent_ns = 0
        self._upload_due_ns = now_ns
        self._numbers = itertools.count(1)
        self._sent_ns: dict[int, int] = {}
        self._before_upload: dict[int, int | None] = {}  # ping -> when its pong came [ns]
        self._after_upload: dict[int, tuple[int, int]] = {}  # ping -> the one before, bytes

    @property
    def silent_s(self) -> float:
        """How long nothing was heard [s]."""
        return to_s(self._silent_ns)

    def look(self, now_ns: int) -> bool:
        """Count the silence up to now [ns]; say whether a ping is due."""
        self._silent_ns += min(max(0, now_ns - self._looked_ns), _MOST_BETWEEN_LOOKS_NS)
        self._looked_ns = now_ns
        return now_ns >= self._due_ns and len(self._sent_ns) < _MOST_UNANSWERED

    def sound(self) -> None:
        """Note that something was heard."""
        self._silent_ns = 0

    def ping(self, now_ns: int) -> int:
        """Note that a ping is sent now [ns]; return its number."""
        number = next(self._numbers)
        self._sent_ns[number], self._due_ns = now_ns, now_ns + self._period_ns
        return number

    def wants_upload(self, now_ns: int) -> bool:
        """Say whether the uplink is to be measured again with the next message."""
        return now_ns >= self._upload_due_ns

    def uploaded(self, before: int, size: int, after: int) -> None:
        """Note that a message of some bytes was sent between two pings.

        Both pongs come back the same way, so the time between them is what the message took.
        """
        sent_ns = self._sent_ns.get(before, self._upload_due_ns)
        self._upload_due_ns = sent_ns + _BETWEEN_UPLOADS_NS
        self._before_upload[before], self._after_upload[after] = None, (before, size)

    def answered(self, number: int, now_ns: int) -> None:
        """Note the pong of a ping; one that was not sent is ignored."""
        sent_ns = self._sent_ns.pop(number, None)
        if sent_ns is None:
            return
        self._meter.trip(now_ns, now_ns - sent_ns)
        if number in self._before_upload:
            self._before_upload[number] = now_ns
        before, size = self._after_upload.pop(number, (0, 0))
        before_ns = self._before_upload.pop(before, None)
        if before_ns is not None:
            self._meter.upload(now_ns, size, now_ns - before_ns)

    def waiting_ns(self, now_ns: int) -> int:
        """Return how long the oldest ping has been under way [ns], 0 if none is."""
        return max((now_ns - sent_ns for sent_ns in tuple(self._sent_ns.values())), default=0)

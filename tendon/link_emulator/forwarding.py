# SPDX-License-Identifier: Apache-2.0
"""Carries packets between two files through a channel, in real time; one thread, no locks.

Knows files and the clock; what happens to a packet is the channel's business.
"""

from collections import deque
from collections.abc import Callable, Mapping
import os
import select
import time

from tendon.link_emulator.channel import Channel, End
from tendon.link_emulator.shaper import NS_PER_S

_READ_BYTES = 65536
_BATCH = 64  # packets that are read before what is due is written
_LONGEST_WAIT_S = 1.0


class Forwarding:
    """Moves packets until it is told to stop.

    Args:
      files: of both ends; a read gives a packet, a write sends one, neither waits.
      channel: decides when a packet comes out.
      control: file that is looked at, too; ``on_control`` is called when it can be read, and
        returns False to stop.
    """

    def __init__(
        self, files: Mapping[End, int], channel: Channel, control: int,
        on_control: Callable[[], bool],
    ) -> None:
        self._files, self._channel = dict(files), channel
        self._control, self._on_control = control, on_control
        self._late_ns: deque[int] = deque(maxlen=20_000)

    def run(self) -> None:
        """Forward until ``on_control`` says so."""
        watched = [*self._files.values(), self._control]
        while True:
            # select, since its timeout is in microseconds; that of poll and epoll is not.
            ready, _, _ = select.select(watched, [], [], self._wait_s())
            for end, file in self._files.items():
                if file in ready:
                    self._read(end, file)
            self._write_due()
            if self._control in ready and not self._on_control():
                return

    def lateness_ms(self) -> float:
        """Return by how much 99 of 100 packets came out late at most [ms]: its own error."""
        late = sorted(self._late_ns)
        return late[int(0.99 * (len(late) - 1))] / 1e6 if late else 0.0

    def _wait_s(self) -> float:
        due_ns = self._channel.next_due_ns()
        if due_ns is None:
            return _LONGEST_WAIT_S
        return min(_LONGEST_WAIT_S, max(0, due_ns - time.monotonic_ns()) / NS_PER_S)

    def _read(self, end: End, file: int) -> None:
        for _ in range(_BATCH):
            try:
                packet = os.read(file, _READ_BYTES)
            except BlockingIOError:
                return
            self._channel.enter(end, packet, time.monotonic_ns())

    def _write_due(self) -> None:
        for end, file in self._files.items():
            for due_ns, packet in self._channel.leave(end, time.monotonic_ns()):
                self._late_ns.append(time.monotonic_ns() - due_ns)
                try:
                    os.write(file, packet)
                except OSError:
                    # The receiver's queue is full: lost, as on a network card.
                    self._channel.counts(end.other).overflowed += 1

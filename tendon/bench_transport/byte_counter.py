# SPDX-License-Identifier: Apache-2.0
"""Counts the bytes between a client and a server, of whatever protocol: a relay on loopback.

It costs time, so nothing is timed through it.
"""

from contextlib import suppress
import socket
import threading
from types import TracebackType

_PIECE = 1 << 20


class ByteCounter:
    """Relays connections to a port; ``up`` and ``down`` are bytes so far. A context manager."""

    def __init__(self, port: int) -> None:
        self._target = ('127.0.0.1', port)
        self._listener = socket.create_server(('127.0.0.1', 0))
        self.port = int(self._listener.getsockname()[1])
        self.up = self.down = 0
        self._ends: list[socket.socket] = []
        self._carriers: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> 'ByteCounter':
        """Relay."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections."""
        # Closing alone would not wake the threads that wait for a connection and for bytes.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for end in self._ends:
            with suppress(OSError):  # the other side has closed it
                end.shutdown(socket.SHUT_RDWR)
        for carrier in self._carriers:
            carrier.join()
        for end in (self._listener, *self._ends):
            end.close()

    def _listen(self) -> None:
        try:
            while True:
                near, _ = self._listener.accept()
                self._ends.append(near)
                far = socket.create_connection(self._target)
                self._ends.append(far)
                for way in ((near, far, 'up'), (far, near, 'down')):
                    self._carriers.append(
                        threading.Thread(target=self._carry, args=way, daemon=True))
                    self._carriers[-1].start()
        except OSError:
            pass  # closed

    def _carry(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        try:
            while data := source.recv(_PIECE):
                setattr(self, way, getattr(self, way) + len(data))
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # closed

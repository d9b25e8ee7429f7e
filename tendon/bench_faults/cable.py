# SPDX-License-Identifier: Apache-2.0
"""A cable between robot and backbone that can be cut: TCP connections stay open, nothing passes.

Neither end sees a FIN or a reset, as when a switch or a NAT box in the middle dies. What was under
way when the cable was cut arrives after it is mended, as with TCP on a real cable. Knows bytes
only.
"""

from collections import deque
import selectors
import socket
import threading
from types import TracebackType

from onboard_decoder.realtime import Priority

_CHUNK = 65536
_POLL_S = 0.005
PRIORITY = 20  # SCHED_FIFO, where the system allows it


class Cable:
    """Listens at ``address`` and connects to ``target``. Use as a context manager.

    Attributes:
      address: where it listens, host:port.
      target: host and port; connections are refused while it is None.
    """

    def __init__(self, target: tuple[str, int] | None = None) -> None:
        self.target = target
        self._listener = socket.create_server(('127.0.0.1', 0))
        self._listener.setblocking(False)
        self.address = f'127.0.0.1:{self._listener.getsockname()[1]}'
        self._ways: list[_Way] = []
        self._whole, self._ended = threading.Event(), threading.Event()
        self._whole.set()
        self._thread = threading.Thread(target=self._run, name='cable', daemon=True)

    def __enter__(self) -> 'Cable':
        """Carry."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections."""
        self._ended.set()
        self._thread.join()
        self._listener.close()
        for way in self._ways:
            way.close()

    def cut(self) -> None:
        """Let nothing pass in either direction, and take no new connections."""
        self._whole.clear()

    def mend(self) -> None:
        """Let everything pass again."""
        self._whole.set()

    def _run(self) -> None:
        Priority(PRIORITY).take()  # a cable does not wait for a busy processor
        while not self._ended.is_set():
            if not self._whole.wait(_POLL_S):
                continue
            self._accept()
            if not self._carry():
                self._ended.wait(_POLL_S)

    def _accept(self) -> None:
        """Take one connection, if one waits; where nobody listens behind, refuse it."""
        try:
            near, _ = self._listener.accept()
        except BlockingIOError:
            return
        try:
            if self.target is None:
                raise ConnectionRefusedError
            far = socket.create_connection(self.target, timeout=1.0)
        except OSError:
            near.close()
            return
        for end in (near, far):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ways += [_Way(near, far), _Way(far, near)]

    def _carry(self) -> bool:
        """Move what is there; say whether there was anything to wait for."""
        self._ways = [way for way in self._ways if not way.is_over]
        with selectors.DefaultSelector() as ready:
            for way in self._ways:
                if not way.held:
                    ready.register(way.source, selectors.EVENT_READ)
            if not ready.get_map():
                return False
            ready.select(_POLL_S)
        for way in self._ways:
            if self._whole.is_set() and not way.is_over:
                way.move()
        return True


class _Way:
    """One direction of one connection."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source, self.sink = source, sink
        self.held: deque[bytes] = deque()

    @property
    def is_over(self) -> bool:
        """True once either end was closed, also by the other direction."""
        return self.source.fileno() < 0 or self.sink.fileno() < 0

    def move(self) -> None:
        """Read and write what can be without waiting; an end that closes closes the other."""
        try:
            if not self.held:
                data = self.source.recv(_CHUNK)
                if not data:
                    self.close()
                    return
                self.held.append(data)
            sent = self.sink.send(self.held[0])
            rest = self.held.popleft()[sent:]
            if rest:
                self.held.appendleft(rest)
        except BlockingIOError:
            pass
        except OSError:
            self.close()

    def close(self) -> None:
        """Close both ends."""
        self.source.close()
        self.sink.close()

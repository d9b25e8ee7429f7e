# SPDX-License-Identifier: Apache-2.0
"""One client of Gazebo's own transport: topics of a running gzserver in, world control out.

The protocol is TCP with eight hexadecimal digits of length before each protobuf packet; a master
tells who publishes what, and each topic comes over a connection of its own. Each connection has a
thread; callbacks run there. At most one client per gzserver: its master numbers connections by how
many there are, and mixes up two that come and go.
"""

from __future__ import annotations

from collections.abc import Callable
import socket
import threading
import time
from typing import Any

from sim.errors import GazeboLost
from sim.gazebo.messages import gazebo

CONNECT_TIMEOUT_S = 10.0
ADVERTISE_TIMEOUT_S = 20.0
_GREETINGS = 3  # packets of the master before anything else

Handler = Callable[[Any], None]


class GazeboTransport:
    """A connected client; ``close`` it."""

    def __init__(self, port: int, host: str = '127.0.0.1') -> None:
        """Connect to the master.

        Raises:
            GazeboLost: nobody answers.
        """
        self._subscriptions: dict[str, tuple[str, Handler]] = {}
        self._listened: set[tuple[str, str, int]] = set()
        self._writers: dict[str, list[socket.socket]] = {}
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._closed = False
        try:
            self._master = self._keep(socket.create_connection((host, port), CONNECT_TIMEOUT_S))
            self._own = self._keep(socket.create_server((host, 0)))
            for _ in range(_GREETINGS):
                self._heard(_read(self._master))
        except (OSError, EOFError) as error:
            self.close()
            raise GazeboLost(f'no master at {host}:{port} ({error})') from error
        self._master.settimeout(None)
        self._me = self._own.getsockname()[:2]
        self._start(self._listen_to_master)
        self._start(self._accept)

    def subscribe(self, topic: str, kind: str, handler: Handler) -> None:
        """Have each message of a topic handed over, in a thread of its own.

        Args:
            topic: full name.
            kind: name of the message in ``messages.GAZEBO``.
            handler: called with each message.
        """
        self._subscriptions[topic] = (kind, handler)
        self._tell('subscribe', gazebo['Subscribe'](
            topic=topic, host=self._me[0], port=self._me[1], msg_type=f'gazebo.msgs.{kind}'))

    def advertise(self, topic: str, kind: str) -> None:
        """Offer a topic that gzserver listens to, and wait until it does. Raises GazeboLost."""
        self._writers[topic] = []
        self._tell('advertise', gazebo['Publish'](
            topic=topic, msg_type=f'gazebo.msgs.{kind}', host=self._me[0], port=self._me[1]))
        deadline_s = time.monotonic() + ADVERTISE_TIMEOUT_S
        while not self._writers[topic]:
            if time.monotonic() > deadline_s:
                raise GazeboLost(f'gzserver does not listen to {topic}')
            time.sleep(0.01)

    def publish(self, topic: str, message: Any) -> None:
        """Send a message on an advertised topic. Raises GazeboLost."""
        try:
            for writer in self._writers[topic]:
                writer.sendall(_frame(message.SerializeToString()))
        except OSError as error:
            self.close()
            raise GazeboLost(f'{topic}: {error}') from error

    def close(self) -> None:
        """Leave; handlers are not called afterwards. Idempotent."""
        self._closed = True
        with self._lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                connection.close()
            self._open.clear()

    def _tell(self, kind: str, message: Any) -> None:
        try:
            self._master.sendall(_packet(kind, message))
        except OSError as error:
            raise GazeboLost(f'the master has gone ({error})') from error

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        threading.Thread(
            target=self._until_closed, args=(work, *arguments), name='gazebo', daemon=True).start()

    def _until_closed(self, work: Callable[..., None], *arguments: object) -> None:
        """Run the body of a thread; a connection that ends, ends it."""
        try:
            work(*arguments)
        except (OSError, EOFError):
            if work == self._listen_to_master:
                self.close()

    def _listen_to_master(self) -> None:
        while not self._closed:
            self._heard(_read(self._master))

    def _heard(self, raw: bytes) -> None:
        """Dial whoever publishes what is subscribed to."""
        packet = gazebo['Packet'].FromString(raw)
        if not packet.type.startswith('publisher_') or packet.type == 'publisher_del':
            return
        publisher = gazebo['Publish'].FromString(packet.serialized_data)
        if packet.type == 'publisher_add' or publisher.topic not in self._subscriptions:
            return
        address = (publisher.topic, publisher.host, publisher.port)
        if address not in self._listened and address[1:] != self._me:
            self._listened.add(address)
            self._start(self._listen_to_topic, publisher)

    def _listen_to_topic(self, publisher: Any) -> None:
        kind, handler = self._subscriptions[publisher.topic]
        with self._keep(socket.create_connection(
                (publisher.host, publisher.port), CONNECT_TIMEOUT_S)) as connection:
            connection.settimeout(None)
            connection.sendall(_packet('sub', gazebo['Subscribe'](
                topic=publisher.topic, host=self._me[0], port=self._me[1],
                msg_type=publisher.msg_type)))
            while not self._closed:
                handler(gazebo[kind].FromString(_read(connection)))

    def _accept(self) -> None:
        """Wait for gzserver to dial back for topics of ours."""
        while not self._closed:
            connection, _ = self._own.accept()
            self._start(self._welcome, self._keep(connection))

    def _welcome(self, connection: socket.socket) -> None:
        while not self._closed:
            packet = gazebo['Packet'].FromString(_read(connection))
            if packet.type == 'sub':
                topic = gazebo['Subscribe'].FromString(packet.serialized_data).topic
                if topic in self._writers:
                    self._writers[topic].append(connection)

    def _keep(self, connection: socket.socket) -> socket.socket:
        """Remember a connection, so that ``close`` ends it."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._open.append(connection)
        return connection


def _read(connection: socket.socket) -> bytes:
    """Read one packet. Raises EOFError at the end."""
    return _exactly(connection, int(_exactly(connection, 8), 16))


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise EOFError('connection closed')
        data += part
    return bytes(data)


def _frame(data: bytes) -> bytes:
    return b'%08X' % len(data) + data


def _packet(kind: str, message: Any) -> bytes:
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    return _frame(gazebo['Packet'](
        stamp=gazebo['Time'](sec=seconds, nsec=nanoseconds), type=kind,
        serialized_data=message.SerializeToString()).SerializeToString())

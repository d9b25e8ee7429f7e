# SPDX-License-Identifier: Apache-2.0
"""Sends position targets of joints to a running gzserver, by Ignition Transport 8.

A topic is announced by UDP datagrams on this machine and goes out over ZeroMQ. Gains travel with
every target: a first message that is lost would otherwise leave gzserver's own. Called by one
thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import socket
import struct
import time
from typing import Any
import uuid

from sim.errors import GazeboLost
from sim.gazebo.messages import ignition
import zmq

DISCOVERY = ('224.0.0.7', 10317)
ANNOUNCE_PERIOD_S = 1.0   # silent for three of them: forgotten
HOST = '127.0.0.1'
_ADVERTISE, _HEARTBEAT = 1, 4
_TYPE = 'ignition.msgs.JointCmd'


@dataclass(frozen=True)
class Gains:
    """Of one joint's servo; its greatest effort is ``limit`` [N m] or [N]."""

    stiffness: float
    damping: float
    limit: float


class JointCommands:
    """The command topic of one model."""

    def __init__(self, model: str, partition: str, gains: Mapping[str, Gains]) -> None:
        self._topic = f'@/{partition}@/{model}/joint_cmd'
        self._model, self._gains = model, dict(gains)
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._data = context.socket(zmq.XPUB)
        self._control = context.socket(zmq.DEALER)  # gzserver hangs for ever without one
        for end in (self._data, self._control):
            end.setsockopt(zmq.LINGER, 0)
            end.bind(f'tcp://{HOST}:*')
        self._address = _endpoint(self._data)
        self._process, self._node = str(uuid.uuid4()), str(uuid.uuid4())
        self._announcer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._announcer.setsockopt(
            socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(HOST))
        self._announced_s = 0.0
        self._listeners = 0

    def wait_ready(self, timeout_s: float = 20.0) -> None:
        """Announce until gzserver listens. Raises GazeboLost if it does not."""
        deadline_s = time.monotonic() + timeout_s
        while not self._is_heard():
            if time.monotonic() > deadline_s:
                raise GazeboLost(f'gzserver does not listen to {self._topic}')
            self._announce()
            time.sleep(0.05)

    def send(self, targets: Mapping[str, float]) -> None:
        """Send where joints shall be [rad] or [m]; announces itself now and then."""
        if time.monotonic() - self._announced_s > ANNOUNCE_PERIOD_S:
            self._announce()
        for joint, target in targets.items():
            self._data.send_multipart([
                self._topic.encode(), self._address.encode(),
                self._message(joint, target).SerializeToString(), _TYPE.encode()])

    def close(self) -> None:
        """Leave; idempotent."""
        self._data.close()
        self._control.close()
        self._announcer.close()

    def _message(self, joint: str, target: float) -> Any:
        gains = self._gains[joint]
        number = ignition['Double']
        return ignition['JointCmd'](name=f'{self._model}::{joint}', position=ignition['PID'](
            target_optional=number(data=target), p_gain_optional=number(data=gains.stiffness),
            i_gain_optional=number(data=0.0), d_gain_optional=number(data=gains.damping),
            limit_optional=number(data=gains.limit)))

    def _announce(self) -> None:
        self._announced_s = time.monotonic()
        publisher = ignition['Pub'](
            topic=self._topic, address=self._address, process_uuid=self._process,
            node_uuid=self._node, scope=2,
            msg_pub=ignition['MsgPub'](ctrl=_endpoint(self._control), msg_type=_TYPE))
        for kind, pub in ((_ADVERTISE, publisher), (_HEARTBEAT, None)):
            data = ignition['Discovery'](
                version=10, process_uuid=self._process, type=kind, pub=pub).SerializeToString()
            self._announcer.sendto(struct.pack('<H', len(data)) + data, DISCOVERY)

    def _is_heard(self) -> bool:
        while self._control.poll(0):
            self._control.recv_multipart()
        while self._data.poll(0):
            message = self._data.recv()
            if message[1:] and self._topic.encode().startswith(message[1:]):
                self._listeners += 1 if message[0] == 1 else -1
        return self._listeners > 0


def _endpoint(end: zmq.Socket[bytes]) -> str:
    return bytes(end.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b'\0').decode()

# SPDX-License-Identifier: Apache-2.0
"""The network interface of one namespace whose packets a process reads and writes as a file.

Sets addresses by ioctl (``man 7 netdevice``), so that no further program is needed. Knows nothing
of what is on the other side.
"""

from collections.abc import Iterator
from contextlib import contextmanager
import fcntl
import os
import socket
import struct

DEVICE = '/dev/net/tun'
NAME = 'link0'
MTU = 1500
# The range for documentation (RFC 5737): no network at the machine has it.
PREFIX_MASK = '255.255.255.252'

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_SIOCSIFADDR, _SIOCSIFNETMASK, _SIOCSIFMTU = 0x8916, 0x891C, 0x8922
_IFF_UP, _IFF_RUNNING = 0x1, 0x40


def open_tun(address: str) -> int:
    """Make the interface ``link0`` in this thread's namespace and bring it up, with loopback.

    Args:
      address: IPv4 address; its three neighbours are on the link.

    Returns:
      A file without waiting: a read gives a packet, a write sends one. The interface ends with it.

    Raises:
      OSError: without the device or the right to use it.
    """
    tun = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(tun, _TUNSETIFF, struct.pack('16sH22x', NAME.encode(), _IFF_TUN | _IFF_NO_PI))
        with _control() as control:
            _set(control, _SIOCSIFADDR, NAME, _ipv4(address))
            _set(control, _SIOCSIFNETMASK, NAME, _ipv4(PREFIX_MASK))
            _set(control, _SIOCSIFMTU, NAME, struct.pack('i', MTU))
            _bring_up(control, NAME)
            _bring_up(control, 'lo')
    except BaseException:
        os.close(tun)
        raise
    return tun


@contextmanager
def _control() -> Iterator[socket.socket]:
    """Give a socket that ioctls on interfaces go through."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        yield control


def _set(control: socket.socket, request: int, name: str, value: bytes) -> None:
    fcntl.ioctl(control, request, struct.pack('16s24s', name.encode(), value))


def _bring_up(control: socket.socket, name: str) -> None:
    answer = fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack('16s24x', name.encode()))
    flags = struct.unpack_from('H', answer, 16)[0] | _IFF_UP | _IFF_RUNNING
    _set(control, _SIOCSIFFLAGS, name, struct.pack('H', flags))


def _ipv4(address: str) -> bytes:
    """Return an address as the kernel's sockaddr_in."""
    return struct.pack('=HH4s8x', socket.AF_INET, 0, socket.inet_aton(address))

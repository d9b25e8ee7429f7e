# SPDX-License-Identifier: Apache-2.0
"""Round trips of a link, measured with ICMP echo requests that the other side's kernel answers.

Needs the right to open a raw socket (CAP_NET_RAW). Knows no emulator.
"""

import os
import socket
import struct
import time

_ECHO_REQUEST, _ECHO_REPLY = 8, 0
_HEADER = struct.Struct('!BBHHH')


def round_trips_ms(
    address: str, count: int = 20, period_s: float = 0.05, timeout_s: float = 1.0
) -> list[float]:
    """Return the times to ``address`` and back [ms], one per request that was answered in time.

    Raises:
      OSError: without the right.
    """
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as echo:
        for number in range(count):
            started_s = time.monotonic()
            try:
                echo.sendto(_request(number), (address, 0))
            except OSError as error:
                if isinstance(error, PermissionError):
                    raise
                continue  # no way there now
            if _is_answered(echo, number, started_s + timeout_s):
                found.append((time.monotonic() - started_s) * 1e3)
            time.sleep(max(0.0, started_s + period_s - time.monotonic()))
    return found


def _is_answered(echo: socket.socket, number: int, deadline_s: float) -> bool:
    while (left_s := deadline_s - time.monotonic()) > 0:
        echo.settimeout(left_s)
        try:
            packet = echo.recv(2048)
        except TimeoutError:
            return False
        kind, _, _, identity, sequence = _HEADER.unpack_from(packet, (packet[0] & 0x0F) * 4)
        if (kind, identity, sequence) == (_ECHO_REPLY, _identity(), number):
            return True
    return False


def _request(number: int) -> bytes:
    blank = _HEADER.pack(_ECHO_REQUEST, 0, 0, _identity(), number)
    total = sum(struct.unpack('!4H', blank))
    total = (total >> 16) + (total & 0xFFFF)
    return _HEADER.pack(_ECHO_REQUEST, 0, ~(total + (total >> 16)) & 0xFFFF, _identity(), number)


def _identity() -> int:
    return os.getpid() & 0xFFFF

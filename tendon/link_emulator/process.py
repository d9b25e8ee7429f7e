# SPDX-License-Identifier: Apache-2.0
"""The process of a link: makes both places, forwards, and clears up when its owner is gone.

Its standard input is the owner's hand: each line is a command (``cut SECONDS``, ``counts``), and
its end, by whatever death of the owner, ends the link and every process that is left in one of the
two places. The first line of its output says where the places are, or what is missing.
"""

from collections.abc import Sequence
from dataclasses import asdict
import gc
import json
import os
import signal
import sys
import time
from typing import Any

from onboard_decoder.realtime import Priority
from tendon.errors import BadRequest
from tendon.link_emulator.channel import Channel, End
from tendon.link_emulator.forwarding import Forwarding
from tendon.link_emulator.namespace import identity, inside, make_namespace
from tendon.link_emulator.profile import from_record, LinkProfile
from tendon.link_emulator.stray_processes import end_residents
from tendon.link_emulator.tun import DEVICE, open_tun

ADDRESSES = {End.ROBOT: '192.0.2.1', End.BACKBONE: '192.0.2.2'}
# Above the robot's process and below its command loop, see config/onboard.yaml.
PRIORITY = 30


class Emulator:
    """Two places and the link between them, for the life of this process."""

    def __init__(self, profile: LinkProfile, seed: int) -> None:
        """Make the places. Raises OSError without the right or the device."""
        self._places = {end: make_namespace() for end in End}
        files = {}
        for end in End:
            with inside(self.path(end)):
                files[end] = open_tun(ADDRESSES[end])
        self._channel = Channel(profile, seed)
        self._forwarding = Forwarding(
            files, self._channel, sys.stdin.fileno(), self._on_control
        )
        self._heard = b''

    def path(self, end: End) -> str:
        """Return where others find a place."""
        return f'/proc/{os.getpid()}/fd/{self._places[end]}'

    def run(self) -> None:
        """Forward until the owner is gone."""
        self._forwarding.run()

    def clear_up(self) -> None:
        """End every process that is left in one of the places."""
        for end in End:
            place = identity(self.path(end))
            if place is not None:
                end_residents(place)

    def _on_control(self) -> bool:
        """Obey what the owner wrote; False when the owner is gone."""
        news = os.read(sys.stdin.fileno(), 4096)
        *lines, self._heard = (self._heard + news).split(b'\n')
        for line in lines:
            self._obey(line.decode(errors='replace').split())
        return bool(news)

    def _obey(self, words: Sequence[str]) -> None:
        match words:
            case ['cut', seconds]:
                self._channel.cut(time.monotonic_ns(), float(seconds))
            case ['counts']:
                say({
                    **{end.value: asdict(self._channel.counts(end)) for end in End},
                    'late_ms_p99': round(self._forwarding.lateness_ms(), 3),
                })
            case _:
                say({'trouble': f'{" ".join(words)!r} is no command; allowed: cut S, counts'})


def say(record: dict[str, Any]) -> None:
    """Write one line to the owner; one who is gone need not hear it."""
    try:
        print(json.dumps(record), flush=True)
    except BrokenPipeError:
        pass


def missing(error: OSError) -> str:
    """Say in one sentence what an emulated link lacks here."""
    if not os.path.exists(DEVICE):
        return (
            f'an emulated link needs {DEVICE}; run: modprobe tun, or give a container '
            f'--device {DEVICE}'
        )
    return (
        f'an emulated link needs the right to make network namespaces ({error.strerror}); run as '
        f'root, or give a container --cap-add SYS_ADMIN --cap-add NET_ADMIN --device {DEVICE}'
    )


def main(arguments: Sequence[str] = ()) -> int:
    """Run a link: the profile as JSON, then the seed. Ends with its standard input."""
    record, seed = arguments or sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the owner's end is what ends it
    try:
        emulator = Emulator(from_record(json.loads(record)), int(seed))
    except OSError as error:
        say({'missing': missing(error)})
        return 1
    except BadRequest as error:
        say({'missing': str(error)})
        return 1
    gc.disable()  # its pauses would be jitter; nothing here makes cycles
    Priority(PRIORITY).take()
    try:
        say({end.value: emulator.path(end) for end in End})
        emulator.run()
    finally:
        emulator.clear_up()
    return 0


if __name__ == '__main__':
    sys.exit(main())

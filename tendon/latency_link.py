# SPDX-License-Identifier: Apache-2.0
"""What is between robot and backbone while latency is measured: loopback, or an emulated link.

Puts this process at the robot's end, says where the backbone goes, cuts the link in mid-motion and
says what the link is like. Knows no turns.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
import time
from typing import Any

import numpy as np
from tendon.backbone_process import HERE, Place
from tendon.doctor_network import TCP_FOLDER
from tendon.errors import BadRequest
from tendon.link_emulator.channel import End
from tendon.link_emulator.echo import round_trips_ms
from tendon.link_emulator.link import EmulatedLink
from tendon.link_emulator.profile import profile_named
from tendon.local_robot import LocalRobot

READY = 'ready'  # of the robot's status
PINGS, PING_PERIOD_S = 40, 0.02
BACK_TIMEOUT_S = 20.0
TCP_SETTINGS = ('tcp_congestion_control', 'tcp_slow_start_after_idle')


class Between:
    """Plain loopback: nothing to check, nothing to cut.

    Attributes:
      place: where the backbone is to run.
      is_cut: True for a link that is to be cut in mid-motion.
    """

    place = HERE
    is_cut = False

    def check(self) -> None:
        """Raise PartDied if what is between is gone."""

    def cut(self, robot: LocalRobot) -> None:
        """Let the link be away for a while, and follow until the robot has its backbone again."""

    def figures(self) -> dict[str, Any]:
        """Return what a reader must know of the link."""
        return {'link': None}


class OverLink(Between):
    """An emulated link; this process is at the robot's end of it."""

    def __init__(self, link: EmulatedLink) -> None:
        self._link, self._profile = link, link.profile
        address = link.addresses[End.BACKBONE]
        self.place = Place(address, partial(link.at, End.BACKBONE))
        self.is_cut = self._profile.outage_s > 0
        self._back_s: list[float] = []
        self._noticed = 0
        self._pings_ms = round_trips_ms(address, PINGS, PING_PERIOD_S)
        if not self._pings_ms:
            raise BadRequest(f'nothing comes through the link {self._profile.name!r}')

    def check(self) -> None:
        """Raise PartDied if the link's process is gone."""
        self._link.check()

    def cut(self, robot: LocalRobot) -> None:
        """Cut it as the profile says, and follow until the robot has its backbone again."""
        talk, end_s = robot.talk, time.monotonic() + self._profile.outage_s
        self._link.cut(self._profile.outage_s)
        was_noticed = talk.wait(lambda: talk.status.get('link') != READY, end_s - time.monotonic())
        self._noticed += was_noticed
        talk.wait(lambda: time.monotonic() >= end_s, self._profile.outage_s, robot.stack.check)
        if was_noticed and talk.wait(
            lambda: talk.status.get('link') == READY, BACK_TIMEOUT_S, robot.stack.check
        ):
            self._back_s.append(max(0.0, time.monotonic() - end_s))

    def figures(self) -> dict[str, Any]:
        """Return profile, measured round trip, what was lost, and how outages went."""
        ping = np.percentile(self._pings_ms, (50, 99))
        cuts: dict[str, Any] = {} if not self.is_cut else {
            'outages_noticed': self._noticed,
            'back_after_s': [round(value, 2) for value in self._back_s],
        }
        return {
            'link': self._profile.name,
            'link_profile': self._profile.record(),
            'ping_ms_p50': round(float(ping[0]), 2),
            'ping_ms_p99': round(float(ping[1]), 2),
            'link_packets': self._link.counts(),
            **{name: (TCP_FOLDER / name).read_text().strip() for name in TCP_SETTINGS},
            **cuts,
        }


@contextmanager
def between(link: str | None, seed: int, file: Path | None = None) -> Iterator[Between]:
    """Give what is between robot and backbone; this thread is at the robot's end inside.

    Args:
      link: name of a profile; None is plain loopback.
      seed: draws jitter and loss.
      file: holds the profiles; None takes ``config/links.yaml``.

    Raises:
      BadRequest: for an unknown link, and where this machine cannot emulate one.
    """
    if link is None:
        yield Between()
        return
    with EmulatedLink(profile_named(link, file), seed) as emulated, emulated.at(End.ROBOT):
        yield OverLink(emulated)

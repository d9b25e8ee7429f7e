# SPDX-License-Identifier: Apache-2.0
"""Reads in the robot's own records when a fault came and when it was over.

The transcript's stamps are of the machine's monotonic clock, which every process here shares.
"""

from collections.abc import Callable
import json
import time
from typing import Any

from tendon.errors import PartNotReady
from tendon.local_robot import LocalRobot

Event = dict[str, Any]
OF_THE_LINK = ('server_silent', 'server_gone')


class Witness:
    """Follows one run."""

    def __init__(self, robot: LocalRobot) -> None:
        self._robot = robot
        self._events: list[Event] = []
        self._read = 0  # bytes of the transcript

    def events(self, after_s: float) -> list[Event]:
        """Return the events of the transcript behind a time [s]."""
        if self._robot.transcript.exists():
            with self._robot.transcript.open('rb') as file:
                file.seek(self._read)
                *lines, rest = file.read().split(b'\n')  # the last line is still being written
                self._read = file.tell() - len(rest)
            self._events += [json.loads(line) for line in lines]
        return [event for event in self._events if event['t_s'] >= after_s]

    def fault_s(self, names: tuple[str, ...], after_s: float, limit_s: float = 30.0) -> float:
        """Wait for one of some faults and return when it came [s]. Raises PartNotReady."""
        return self._wait(f'fault {" or ".join(names)}', limit_s, lambda: next((
            event['t_s'] for event in self.events(after_s)
            if event['event'] == 'fault' and event['fault'] in names
        ), None))

    def over_s(self, names: tuple[str, ...], after_s: float, limit_s: float = 60.0) -> float:
        """Wait until none of some faults is there and return since when [s].

        Raises PartNotReady.
        """
        return self._wait(f'end of {" and ".join(names)}', limit_s, lambda: self._ended_s(
            names, after_s))

    def _ended_s(self, names: tuple[str, ...], after_s: float) -> float | None:
        """Return when the last of some faults ended, None while one is there."""
        there: set[str] = set()
        ended_s = None
        for event in self.events(0.0):
            if event.get('fault') not in names:
                continue
            if event['event'] == 'fault':
                there.add(event['fault'])
            else:
                there.discard(event['fault'])
                ended_s = event['t_s']
        # One may follow on the other at once: wait a moment before it is believed.
        settled = ended_s is not None and time.monotonic() - ended_s > 0.3
        return ended_s if settled and not there and (ended_s or 0.0) >= after_s else None

    def _wait(self, what: str, limit_s: float, find: Callable[[], float | None]) -> float:
        found: list[float] = []

        def look() -> bool:
            at_s = find()
            found.extend([] if at_s is None else [at_s])
            return bool(found)

        if not self._robot.talk.wait(look, limit_s):
            raise PartNotReady(what, limit_s)
        return found[0]

    def missed_ticks(self) -> int:
        """Return the missed ticks so far, from diagnostics that are newer than this call."""
        talk = self._robot.talk
        talk.diagnostics.clear()
        if not talk.wait(lambda: 'missed' in talk.diagnostics.get('command loop', {}), 15.0):
            raise PartNotReady('diagnostics of the command loop', 15.0)
        return int(talk.diagnostics['command loop']['missed'])

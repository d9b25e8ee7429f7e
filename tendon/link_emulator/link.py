# SPDX-License-Identifier: Apache-2.0
"""What a run uses: a link for the time of a ``with``, and the two places that it connects.

The link is a process of its own, which outlives a killed run just long enough to clear up. Knows
neither robot nor backbone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
import json
import os
import select
import subprocess
import sys
import time
from types import TracebackType
from typing import Any

from tendon.errors import BadRequest, PartDied, PartNotReady
from tendon.link_emulator.channel import End
from tendon.link_emulator.namespace import inside
from tendon.link_emulator.process import ADDRESSES
from tendon.link_emulator.profile import LinkProfile
from tendon.link_emulator.stray_processes import MARK, mark_of, sweep

START_TIMEOUT_S = 20.0
ANSWER_TIMEOUT_S = 5.0
CLEAR_UP_TIMEOUT_S = 5.0


class EmulatedLink:
    """A link between two places on this machine. Use as a context manager.

    Args:
      profile: how it is.
      seed: draws jitter and loss.

    Attributes:
      addresses: IPv4 address of each end.
      pid: of the link's process.
    """

    def __init__(self, profile: LinkProfile, seed: int = 0) -> None:
        self.profile, self.addresses = profile, dict(ADDRESSES)
        self._seed = seed

    def __enter__(self) -> 'EmulatedLink':
        """Start the link.

        Raises:
          BadRequest: where this machine cannot; the text says what is missing.
          PartNotReady: if it does not come up.
        """
        sweep()
        self._process = subprocess.Popen(
            [sys.executable, '-m', 'tendon.link_emulator.process',
             json.dumps(self.profile.record()), str(self._seed)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )
        self.pid = self._process.pid
        self._heard = b''
        try:
            self._told = self._answer(START_TIMEOUT_S)
            if 'missing' in self._told:
                raise BadRequest(str(self._told['missing']))
            self._mark = mark_of(self.pid)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the link and whatever is left at its ends."""
        self._end()

    @contextmanager
    def at(self, end: End) -> Iterator[None]:
        """Be at one end for a while: this thread, and the processes and threads it starts."""
        before = os.environ.get(MARK)
        os.environ[MARK] = self._mark
        try:
            with inside(str(self._told[end.value])):
                yield
        finally:
            if before is None:
                del os.environ[MARK]
            else:
                os.environ[MARK] = before

    def cut(self, length_s: float) -> None:
        """Let the link be away for a time [s]; 0 brings it back."""
        self._say(f'cut {length_s}')

    def counts(self) -> dict[str, Any]:
        """Return what became of the packets sent at each end, and the emulator's own lateness.

        Raises:
          PartDied, PartNotReady: if the link's process does not answer.
        """
        self._say('counts')
        return self._answer(ANSWER_TIMEOUT_S)

    def check(self) -> None:
        """Raise PartDied if the link's process has ended."""
        if self._process.poll() is not None:
            raise PartDied('link', self._process.returncode, 'it is gone')

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f'{line}\n'.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            self._process.wait(CLEAR_UP_TIMEOUT_S)
            self.check()

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        """Return the next line of the link's process."""
        assert self._process.stdout is not None
        file, deadline_s = self._process.stdout.fileno(), time.monotonic() + timeout_s
        while b'\n' not in self._heard:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not select.select([file], [], [], left_s)[0]:
                raise PartNotReady('link', timeout_s)
            news = os.read(file, 65536)
            if not news:
                self._process.wait(CLEAR_UP_TIMEOUT_S)
                self.check()
            self._heard += news
        line, _, self._heard = self._heard.partition(b'\n')
        return dict(json.loads(line))

    def _end(self) -> None:
        """Let go, wait, insist; then end what it could not."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(CLEAR_UP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        sweep()

# SPDX-License-Identifier: Apache-2.0
"""A server and a client of one kind, each a process of its own; CPU time read from outside.

Knows how to start, ask and end them; what they say to each other is theirs.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
import json
import os
from pathlib import Path
import selectors
import subprocess
import sys
import time
from types import TracebackType

from tendon.errors import PartDied, PartNotReady

START_S, ROUND_S, STOP_S = 120.0, 120.0, 5.0
OURS = Path(__file__).resolve().parents[2]
# What belongs to another environment comes from there; only what it lacks, from ours.
_BOOT = (
    'import runpy, sys; sys.path.append({folder!r}); sys.argv = sys.argv[1:]; '
    'runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=False)'
)


@dataclass(frozen=True)
class Contestant:
    """How one kind is started: the interpreter, and module and arguments of both ends."""

    name: str
    python: Path
    server: tuple[str, ...]
    client: tuple[str, ...]


@dataclass(frozen=True)
class Round:
    """Durations of calls [ms], and the CPU time of both ends per call [ms]."""

    took_ms: list[float]
    cpu_ms: float


class Running:
    """A contestant whose processes are there. Use as a context manager.

    Raises:
      PartDied, PartNotReady: if they do not start.
    """

    def __init__(self, contestant: Contestant, logs: Path) -> None:
        self.contestant, self._logs = contestant, logs
        self._parts: list[_Part] = []

    def __enter__(self) -> Running:
        """Start both."""
        name = self.contestant.name
        try:
            server = self._start(f'{name}_server', *self.contestant.server)
            self.port = int(server.line(START_S))
            self.client(self.port)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End both."""
        self.stop()

    def client(self, port: int) -> None:
        """Start the client that is asked from now on, at a port; the one before is ended.

        Two robots at once are more than some servers keep apart.
        """
        for before in self._parts[1:]:
            before.stop()
        del self._parts[1:]
        client = self._start(f'{self.contestant.name}_client', *self.contestant.client, str(port))
        client.line(START_S)

    def play(self, calls: int) -> Round:
        """Let the newest client make some calls."""
        server, client = self._parts[0], self._parts[-1]
        before_s = server.cpu_s() + client.cpu_s()
        took_ms = json.loads(client.ask(str(calls), ROUND_S))
        return Round(took_ms, (server.cpu_s() + client.cpu_s() - before_s) / calls * 1e3)

    def stop(self) -> None:
        """End all processes, the newest first."""
        while self._parts:
            self._parts.pop().stop()

    def _start(self, name: str, module: str, *arguments: str) -> _Part:
        command = [str(self.contestant.python), '-c', _BOOT.format(folder=str(OURS))]
        part = _Part(name, [*command, module, *arguments], self._logs / f'{name}.log')
        self._parts.append(part)
        return part


class _Part:
    """One process that answers lines with lines."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self._name, self._log = name, log
        with log.open('wb') as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                env={**os.environ, 'OMP_NUM_THREADS': '1', 'OPENCV_NUM_THREADS': '1'},
                start_new_session=True, cwd=log.parent,
            )

    def ask(self, line: str, timeout_s: float) -> str:
        """Return the answer to a line; raises what ``line`` raises."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the answer says why
            self._process.stdin.write(f'{line}\n')
            self._process.stdin.flush()
        return self.line(timeout_s)

    def line(self, timeout_s: float) -> str:
        """Return the next line that it prints.

        Raises:
          PartDied: it has ended.
          PartNotReady: it printed none in this time [s].
        """
        out = self._process.stdout
        assert out is not None
        deadline_s = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as ready:
            ready.register(out, selectors.EVENT_READ)
            if not ready.select(max(0.0, deadline_s - time.monotonic())):
                raise PartNotReady(self._name, timeout_s, self._log)
        line = out.readline()
        if not line:
            last = self._log.read_text(errors='replace').strip().splitlines()
            raise PartDied(
                self._name, self._process.wait(STOP_S), last[-1] if last else 'it printed nothing',
                self._log,
            )
        return line.strip()

    def cpu_s(self) -> float:
        """Return the CPU time that the process has used [s]."""
        return time.clock_gettime(_cpu_clock(self._process.pid))

    def stop(self) -> None:
        """End it."""
        for end in (self._process.stdin, self._process.stdout):
            assert end is not None
            with suppress(BrokenPipeError):  # it has ended with a question unread
                end.close()
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _cpu_clock(pid: int) -> int:
    """Return the CPU clock of another process, as clock_getcpuclockid(3) makes it on Linux."""
    return ~pid << 3 | 2


def this_python() -> Path:
    """Return the interpreter of our own environment."""
    return Path(sys.executable)

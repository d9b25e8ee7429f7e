# SPDX-License-Identifier: Apache-2.0
"""Starts the parts of a run as processes of their own, and leaves none behind.

Knows commands, environment and how to end a process; knows nothing about what the parts do.
"""

from collections.abc import Callable
import os
from pathlib import Path
import signal
import socket
import subprocess
import sys
import time
from types import TracebackType

from tendon.errors import PartDied, PartNotReady

STOP_TIMEOUT_S = 8.0
POLL_S = 0.05


class Stack:
    """Processes of one run. Use as a context manager; the exit stops all of them.

    Args:
      logs: Folder for one log file per part.
      domain: ROS domain, so that two runs on one machine do not hear each other.
    """

    def __init__(self, logs: Path, domain: int | None = None) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = logs
        self._parts: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = ros_environment(logs, domain)

    def __enter__(self) -> 'Stack':
        """Return the empty stack."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop every part, newest first."""
        for name in reversed(list(self._parts)):
            self.stop(name)

    def start(self, name: str, module: str, *arguments: str) -> None:
        """Run ``python -m module arguments`` in its own process group."""
        with self.log(name).open('ab') as log:
            self._parts[name] = subprocess.Popen(
                [sys.executable, '-m', module, *arguments], env=self.environment, stdout=log,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )

    def wait(self, name: str, ready: Callable[[], bool], timeout_s: float) -> None:
        """Wait until a part is ready.

        Raises:
          PartDied: if any part ends meanwhile.
          PartNotReady: if the time is over.
        """
        deadline_s = time.monotonic() + timeout_s
        while not ready():
            self.check()
            if time.monotonic() > deadline_s:
                raise PartNotReady(name, timeout_s, self.log(name))
            time.sleep(POLL_S)

    def check(self) -> None:
        """Raise PartDied if a part has ended by itself."""
        for name, part in self._parts.items():
            if part.poll() is not None:
                raise PartDied(name, part.returncode, self._tail(name), self.log(name))

    def pid(self, name: str) -> int:
        """Return the process id of a part."""
        return self._parts[name].pid

    def kill(self, name: str) -> None:
        """End a part at once, as a power cut would."""
        part = self._parts.pop(name)
        _signal_group(part, signal.SIGKILL)
        part.wait()

    def stop(self, name: str) -> int:
        """Ask a part to end, insist after a while, and return its exit status."""
        part = self._parts.pop(name)
        if part.poll() is None:
            _signal_group(part, signal.SIGINT)
        try:
            part.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass
        _signal_group(part, signal.SIGKILL)
        return part.wait()

    def log(self, name: str) -> Path:
        """Return the path of a part's log."""
        return self._logs / f'{name}.log'

    def _tail(self, name: str) -> str:
        lines = self.log(name).read_text(errors='replace').strip().splitlines()
        return lines[-1] if lines else 'it printed nothing'


def ros_environment(logs: Path, domain: int | None = None) -> dict[str, str]:
    """Return an environment in which ROS stays on this machine and in its own domain."""
    # 0 is everybody's default domain; above 101 the ports collide with ephemeral ones.
    chosen = 1 + os.getpid() % 100 if domain is None else domain
    return {
        **os.environ,
        'ROS_DOMAIN_ID': str(chosen),
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
        'ROS_LOG_DIR': str(logs / 'ros'),
        # Two spinning threads on two busy cores are several times slower than one.
        'OMP_NUM_THREADS': '1',
    }


def free_port() -> int:
    """Return a TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return int(probe.getsockname()[1])


def _signal_group(part: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(part.pid, number)
    except ProcessLookupError:
        pass


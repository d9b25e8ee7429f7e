# SPDX-License-Identifier: Apache-2.0
"""Runs gzserver with a display of its own, from the unpacked tree, and leaves nothing behind.

Each one has its own ports, so several may run side by side. Knows the program's environment and
its ways of failing; nothing of the world in it.
"""

from __future__ import annotations

import os
from pathlib import Path
import select
import shutil
import signal
import socket
import subprocess
import time

from sim.errors import GazeboUnavailable
from sim.gazebo.install import gazebo_root, is_installed, program, SYSTEM

START_TIMEOUT_S = 40.0
STOP_TIMEOUT_S = 4.0   # some stops hang inside gzserver
SETTLE_S = 0.5         # clients that come at once can cut gzserver off from its own master
POLL_S = 0.02
# Whatever ends this process, ends these too.
WITH_PARENT = ('setpriv', '--pdeathsig', 'KILL', '--')
_ESTABLISHED = '01'


class GazeboProcess:
    """One gzserver; ``stop`` it.

    Attributes:
        port: of its master.
        partition: name that keeps its Ignition topics apart from those of others.
    """

    def __init__(self, world: Path, folder: Path, is_paused: bool = False) -> None:
        """Start it.

        Args:
            world: SDF file.
            folder: for logs and what it writes at home.
            is_paused: start with the time standing still, and pictures in step with it.

        Raises:
            GazeboUnavailable: not installed, no Xvfb, or it does not come up.
        """
        if not is_installed():
            raise GazeboUnavailable(
                'it is not installed; "tendon gazebo-install" fetches it on Debian')
        if shutil.which('Xvfb') is None:
            raise GazeboUnavailable('there is no Xvfb here: install the package xvfb')
        folder.mkdir(parents=True, exist_ok=True)
        self.port = _free_port()
        self.partition = f'tendon-{os.getpid()}-{self.port}'
        self._display, screen = _start_display(folder / 'xvfb.log')
        self._server = self._start(world, folder, screen, is_paused)
        try:
            self._wait_up(folder / 'gzserver.log')
        except BaseException:
            self.stop()
            raise

    @property
    def processes(self) -> tuple[int, int]:
        """Process ids of gzserver and of its display."""
        return self._server.pid, self._display.pid

    @property
    def is_running(self) -> bool:
        """True until gzserver has ended."""
        return self._server.poll() is None

    def stop(self) -> None:
        """End gzserver, insist after a while, then its display; idempotent."""
        _end(self._server, signal.SIGINT)
        _end(self._display, signal.SIGTERM)

    def _start(
        self, world: Path, folder: Path, screen: str, is_paused: bool
    ) -> subprocess.Popen[bytes]:
        root, system = gazebo_root(), gazebo_root() / SYSTEM
        environment = {
            'PATH': '/usr/bin:/bin', 'HOME': str(folder), 'LANG': 'C.UTF-8', 'DISPLAY': screen,
            'GAZEBO_IP': '127.0.0.1', 'IGN_IP': '127.0.0.1', 'IGN_PARTITION': self.partition,
            'GAZEBO_MASTER_URI': f'http://127.0.0.1:{self.port}',
            'GAZEBO_MODEL_DATABASE_URI': '',  # else it asks the internet
            'GAZEBO_RESOURCE_PATH': f'{root}/usr/share/gazebo-11',
            'GAZEBO_PLUGIN_PATH': f'{system}/gazebo-11/plugins',
            'OGRE_RESOURCE_PATH': f'{system}/OGRE-1.9.0', 'LIBGL_DRIVERS_PATH': f'{system}/dri',
            'LIBGL_ALWAYS_SOFTWARE': '1', '__GLX_VENDOR_LIBRARY_NAME': 'mesa',
            'ALSOFT_DRIVERS': 'null',
        }
        with (folder / 'gzserver.log').open('wb') as log:
            return subprocess.Popen(
                [*_guard(), *program('gzserver'), '--verbose',
                 *(['-u', '--lockstep'] if is_paused else []), str(world)],
                env=environment, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def _wait_up(self, log: Path) -> None:
        """Wait until gzserver is connected to its own master: that must be the first client."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while _ESTABLISHED not in _states(self.port):
            if not self.is_running:
                raise GazeboUnavailable(
                    f'gzserver ended with {self._server.returncode}, see {log}')
            if time.monotonic() > deadline_s:
                raise GazeboUnavailable(
                    f'gzserver was not up after {START_TIMEOUT_S:g} s, see {log}')
            time.sleep(POLL_S)
        time.sleep(SETTLE_S)


def _start_display(log: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start Xvfb on a screen that it chooses itself; return the process and ':number'."""
    reader, writer = os.pipe()
    with log.open('wb') as output:
        process = subprocess.Popen(
            [*_guard(), 'Xvfb', '-displayfd', str(writer), '-screen', '0', '640x480x24',
             '-nolisten', 'tcp'],
            pass_fds=[writer], stdout=output, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )
    os.close(writer)
    with os.fdopen(reader) as answer:
        is_up = select.select([answer], [], [], START_TIMEOUT_S)[0]
        number = answer.readline().strip() if is_up else ''
    if not number:
        _end(process, signal.SIGTERM)
        raise GazeboUnavailable(f'Xvfb did not come up, see {log}')
    return process, f':{number}'


def _end(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Ask a process to end, and insist after a while."""
    if process.poll() is None:
        process.send_signal(number)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _guard() -> tuple[str, ...]:
    """Return what to write before a command so that it ends with this process."""
    return WITH_PARENT if shutil.which(WITH_PARENT[0]) else ()


def _states(port: int) -> list[str]:
    """Return the states of all sockets at a local TCP port."""
    lines = Path('/proc/net/tcp').read_text(encoding='ascii').splitlines()[1:]
    fields = [line.split() for line in lines]
    return [entry[3] for entry in fields if int(entry[1].split(':')[1], 16) == port]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return int(probe.getsockname()[1])

# SPDX-License-Identifier: Apache-2.0
"""A real Redis or Valkey server on a free port of this machine, which keeps nothing on a disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
import shutil
import socket
import subprocess
import time

START_S = 20.0
PROGRAMS = ('valkey-server', 'redis-server')


def program() -> str | None:
    """Return the path of a server; None if there is none on this machine."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Run a server; give its address."""
    port, path = _free_port(), program()
    assert path is not None, 'no server is installed'
    process = subprocess.Popen(
        [path, '--port', str(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no',
         '--dir', str(folder), '--maxmemory', '256mb'],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        _wait(port, process)
        yield f'redis://127.0.0.1:{port}/0'
    finally:
        process.terminate()
        process.wait(timeout=START_S)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + START_S
    while time.monotonic() < limit:
        assert process.poll() is None, 'the server did not start'
        try:
            socket.create_connection(('127.0.0.1', port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f'no answer from the server at port {port}')


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port: int = probe.getsockname()[1]
    return port

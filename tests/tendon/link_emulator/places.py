# SPDX-License-Identifier: Apache-2.0
"""Helpers of the tests that need root: can this machine emulate links, and who is in a place."""

from contextlib import suppress
import os
from pathlib import Path
import subprocess
import sys
import time

from tendon.errors import BadRequest
from tendon.link_emulator.channel import End
from tendon.link_emulator.link import EmulatedLink
from tendon.link_emulator.namespace import identity, processes
from tendon.link_emulator.profile import LinkProfile

ROOT = Path(__file__).resolve().parents[3]
SLEEP = 'import time; time.sleep(120)'


def why_not() -> str:
    """Say why there are no emulated links here; empty where there are."""
    try:
        with EmulatedLink(LinkProfile('ideal')):
            return ''
    except BadRequest as error:
        return str(error)


def python(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a program with the repository on its path; its output can be read."""
    return subprocess.Popen(
        [sys.executable, '-c', program, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
    )


def sleeper(link: EmulatedLink, end: End) -> int:
    """Start a process at an end of a link that would stay for long; return its id."""
    with link.at(end):
        return os.posix_spawn(sys.executable, [sys.executable, '-c', SLEEP], os.environ)


def is_alive(pid: int) -> bool:
    """Say whether a process runs; one that only waits to be buried does not."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        state = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0]
    except OSError:
        return False
    return state != 'Z'


def is_gone(pid: int, timeout_s: float = 10.0) -> bool:
    """Wait until a process has ended."""
    deadline_s = time.monotonic() + timeout_s
    while is_alive(pid):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.01)
    return True


def places(link: EmulatedLink) -> list[tuple[int, int]]:
    """Return what tells the two namespaces of a link from all others."""
    found = []
    for end in End:
        with link.at(end):
            found.append(identity('/proc/thread-self/ns/net'))
    return [entry for entry in found if entry is not None]


def are_held(namespaces: list[tuple[int, int]]) -> bool:
    """Say whether any process is in one of these namespaces or holds a file of one."""
    def holds(folder: Path) -> bool:
        try:
            files = list((folder / 'fd').iterdir())
        except OSError:
            files = []
        seen = [identity(str(path)) for path in [folder / 'ns' / 'net', *files]]
        return any(entry in namespaces for entry in seen)

    return bool(processes(holds))

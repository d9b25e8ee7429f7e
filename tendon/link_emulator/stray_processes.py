# SPDX-License-Identifier: Apache-2.0
"""Ends processes that a run on a link left behind: those in its places, and those of dead runs.

Each process that is started on a link carries the mark of that link's process in its environment.
"""

from collections.abc import Callable
from contextlib import suppress
import os
from pathlib import Path
import signal
import time

from tendon.link_emulator.namespace import identity, processes, residents

MARK = 'TENDON_LINK'
_ROUNDS = 20
_ROUND_S = 0.05


def mark_of(pid: int) -> str:
    """Return what tells a process from all others of this boot: its id and when it started.

    Raises:
      OSError: if there is none.
    """
    # The second field is a name in brackets and may hold blanks; then come state and 18 others.
    state, *fields = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    if state in 'ZX':
        raise ProcessLookupError(pid, 'is dead')
    return f'{pid}:{fields[18]}'


def end_residents(place: tuple[int, int]) -> None:
    """Kill every process in a namespace, without this one; again until none is left."""
    for _ in range(_ROUNDS):
        found = residents(place)
        if not found:
            return
        for pid in found:
            _kill(pid, lambda pid: identity(f'/proc/{pid}/ns/net') == place)
        time.sleep(_ROUND_S)


def sweep() -> list[int]:
    """Kill what carries the mark of a link whose process is gone; return the process ids.

    Looks only at processes that count their ids as this one does: not into containers.
    """
    here = identity('/proc/self/ns/pid')
    strays = processes(
        lambda folder: identity(str(folder / 'ns' / 'pid')) == here and _is_stray(int(folder.name))
    )
    for pid in strays:
        _kill(pid, _is_stray)
    return strays


def _is_stray(pid: int) -> bool:
    mark = _mark_in(pid)
    if not mark:
        return False
    try:
        return mark_of(int(mark.partition(':')[0])) != mark
    except (OSError, ValueError, IndexError):
        return True


def _mark_in(pid: int) -> str:
    try:
        environment = Path(f'/proc/{pid}/environ').read_bytes()
    except OSError:
        return ''
    for entry in environment.split(b'\0'):
        name, _, value = entry.partition(b'=')
        if name == MARK.encode():
            return value.decode(errors='replace')
    return ''


def _kill(pid: int, still: Callable[[int], bool]) -> None:
    """Kill a process, if it is still the one that was meant."""
    with suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(pid)
        try:
            if still(pid):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)

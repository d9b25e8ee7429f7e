# SPDX-License-Identifier: Apache-2.0
"""Network namespaces of Linux: make one, go into one, see who is in one. Knows no link.

They have no names: the kernel removes one with the last process and file that holds it, so no
crash leaves one behind. Needs the right CAP_SYS_ADMIN.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import ctypes
import os
from pathlib import Path

NEW_NETWORK = 0x40000000  # CLONE_NEWNET
OWN = '/proc/thread-self/ns/net'


def make_namespace() -> int:
    """Make a network namespace; return a file that holds it. The caller stays where it is.

    Raises:
      OSError: without the right to do so.
    """
    home = os.open(OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call('unshare', NEW_NETWORK)
        made = os.open(OWN, os.O_RDONLY | os.O_CLOEXEC)
        enter(home)
    finally:
        os.close(home)
    return made


def enter(namespace: int) -> None:
    """Move the calling thread; what it starts from now on is there too. Raises OSError."""
    _call('setns', namespace, NEW_NETWORK)


@contextmanager
def inside(path: str) -> Iterator[None]:
    """Be in the namespace at a path for a while: this thread, and whatever it starts.

    Threads and processes that were started inside stay there.

    Raises:
      OSError: if it is gone or the right is missing.
    """
    home = os.open(OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        there = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            enter(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            enter(home)
    finally:
        os.close(home)


def identity(path: str) -> tuple[int, int] | None:
    """Return what tells the namespace at a path from others; None if it cannot be seen."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def processes(is_wanted: Callable[[Path], bool]) -> list[int]:
    """Return the ids of the processes whose folder in /proc is wanted, without this one."""
    return [
        int(folder.name) for folder in Path('/proc').iterdir()
        if folder.name.isdigit() and int(folder.name) != os.getpid() and is_wanted(folder)
    ]


def residents(namespace: tuple[int, int]) -> list[int]:
    """Return the ids of the processes in a namespace, without this one."""
    return processes(lambda folder: identity(str(folder / 'ns' / 'net')) == namespace)


def _call(name: str, *arguments: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))

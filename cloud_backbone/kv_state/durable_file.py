# SPDX-License-Identifier: Apache-2.0
"""Files that are there whole or not at all, whenever the power goes.

Knows names and bytes, not what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable
import mmap
import os
from pathlib import Path
import tempfile
import time

from cloud_backbone.kv_state.errors import Corrupt, StoreError

PART = '.part'
"""Ending of a file that is being written; one that is found later was given up."""


def write_whole(path: Path, parts: Iterable[bytes | memoryview]) -> int:
    """Write a file beside the old one, have the disk keep it, and put it in the old one's place.

    Returns:
        Its bytes [B].

    Raises:
        StoreError: the disk refused; the old file is as it was.
    """
    try:
        number, name = tempfile.mkstemp(prefix=f'{path.name}.', suffix=PART, dir=path.parent)
    except OSError as error:
        raise StoreError(f'cannot write beside {path}: {error}') from error
    part = Path(name)
    try:
        with os.fdopen(number, 'wb') as stream:
            size = sum(stream.write(piece) for piece in parts)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, path)
        sync_folder(path.parent)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StoreError(f'cannot write {path}: {error}') from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return size


def sync_folder(folder: Path) -> None:
    """Have the disk keep what the names in a folder stand for."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def map_file(path: Path) -> mmap.mmap:
    """Return the bytes of a file; writing to them changes the copy in memory alone.

    Raises:
        FileNotFoundError: there is none.
        Corrupt: it is empty.
        StoreError: the disk refused.
    """
    try:
        with path.open('rb') as stream:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
    except ValueError as error:
        raise Corrupt(path.name, 'the file is empty') from error
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError(f'cannot read {path}: {error}') from error


def remove_leftovers(folder: Path, age_s: float = 0.0) -> None:
    """Remove what was being written when somebody was killed, if it is that old [s]."""
    newest_s = time.time() - age_s
    for part in folder.glob(f'*{PART}'):
        try:
            if not age_s or part.stat().st_mtime < newest_s:
                part.unlink()
        except FileNotFoundError:
            continue  # it has just become whole, or another process removed it

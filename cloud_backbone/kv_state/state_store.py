# SPDX-License-Identifier: Apache-2.0
"""Where snapshots are kept by key: the interface, and a folder on a disk.

A store knows keys and bytes; whether the bytes are good, and for which model, their reader finds
out. What is saved is there whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote

from cloud_backbone.kv_state.durable_file import map_file, remove_leftovers, write_whole
from cloud_backbone.kv_state.errors import NotStored, StoreError

ENDING = '.safetensors'
LONGEST = 200
"""Characters of a key, quoted; file systems end at 255."""


class SnapshotStore(Protocol):
    """Keeps the newest bytes of each key. A store that does not answer raises in bounded time."""

    def save(self, key: str, parts: Iterable[bytes | memoryview]) -> int:
        """Keep bytes in the place of older ones of this key; return how many [B].

        Raises:
            StoreError: they are not kept; the older ones are.
        """

    def load(self, key: str) -> Any:
        """Return a writable buffer of what was saved; writing to it changes nothing kept.

        Raises:
            NotStored: there is nothing of this key.
            StoreError: the store does not answer.
        """

    def remove(self, key: str) -> None:
        """Forget a key, if it is there.

        Raises:
            StoreError: the store does not answer.
        """

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each key [B].

        Raises:
            StoreError: the store does not answer.
        """


class FolderStore:
    """Files of one folder, which is made if need be.

    Args:
        path: of the folder; nobody else writes there but stores like this one.
        leftovers_s: half a file that is older was given up [s]; 0: nobody else is writing now.

    Raises:
        StoreError: it cannot be made.
    """

    def __init__(self, path: Path, leftovers_s: float = 0.0) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            remove_leftovers(path, leftovers_s)
        except OSError as error:
            raise StoreError(f'cannot keep snapshots in {path}: {error}') from error

    def save(self, key: str, parts: Iterable[bytes | memoryview]) -> int:
        """Write a file, whole or not at all."""
        return write_whole(self._file(key), parts)

    def load(self, key: str) -> Any:
        """Map a file."""
        try:
            return map_file(self._file(key))
        except FileNotFoundError as error:
            raise NotStored(key, str(self.path)) from error

    def remove(self, key: str) -> None:
        """Delete a file."""
        try:
            self._file(key).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f'cannot delete {self._file(key)}: {error}') from error

    def sizes(self) -> dict[str, int]:
        """Look at all files."""
        return {
            unquote(file.name.removeprefix('_').removesuffix(ENDING)): file.stat().st_size
            for file in self.path.glob(f'_*{ENDING}')
        }

    def _file(self, key: str) -> Path:
        name = quote(key, safe='')
        if not 0 < len(name) <= LONGEST:
            raise StoreError(f'{key!r} is no key: 1 to {LONGEST} characters are')
        return self.path / f'_{name}{ENDING}'

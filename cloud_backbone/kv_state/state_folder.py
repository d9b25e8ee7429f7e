# SPDX-License-Identifier: Apache-2.0
"""What one session keeps on a disk: its newest snapshot, and a journal of all that came since.

    snapshot-<n>.safetensors   journal-<n>   goes on from snapshot n; 0 goes on from nothing
    image-<sha256>.safetensors               what shows an image that a record speaks of
    lock                                     held by the one process that may write

Generation n + 1 is there once its journal is; until then generation n counts, whole. Whoever opens
the folder begins a new epoch. Knows neither models nor what records mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import fcntl
import os
from pathlib import Path
from typing import Any

from cloud_backbone.kv_state.checked_tensors import decode, encode
from cloud_backbone.kv_state.durable_file import (
    map_file,
    remove_leftovers,
    sync_folder,
    write_whole,
)
from cloud_backbone.kv_state.errors import Corrupt, StoreError
from cloud_backbone.kv_state.journal import Journal, Record
from cloud_backbone.kv_state.segment import SegmentImage
from cloud_backbone.kv_state.snapshot import ENDING, load_snapshot, Snapshot

LOCK = 'lock'
SNAPSHOT, JOURNAL, IMAGE = 'snapshot-', 'journal-', 'image-'
EPOCH = 'epoch'
"""Key of the records by which somebody takes the folder up."""


@dataclass(frozen=True)
class Found:
    """What was there when a folder was opened."""

    snapshot: Snapshot | None
    records: tuple[Record, ...]
    """Those after the snapshot, in order."""


class StateFolder:
    """The folder of one session; made by ``open``."""

    def __init__(
        self, path: Path, lock: int, generation: int, journal: Journal, epoch: int,
        about: Record,
    ) -> None:
        self.path, self.generation, self.epoch = path, generation, epoch
        self._lock, self._journal, self._about = lock, journal, about

    @classmethod
    def open(
        cls, path: Path, about: Mapping[str, Any] | None = None
    ) -> tuple[StateFolder, Found]:
        """Take up a folder, or make it; a torn last record is cut off.

        Args:
            path: of the folder.
            about: words for whoever reads a journal, in the head of each new one.

        Raises:
            Corrupt: a record, or the header of the snapshot, is damaged; nothing is changed.
            StoreError: another process has it, or the disk refused.
        """
        lock = _locked(path)
        try:
            generation = max(_generations(path), default=0)
            snapshot = load_snapshot(_snapshot(path, generation)) if generation else None
            journal, epoch, records = _take_up(path, generation, dict(about or {}))
        except FileNotFoundError as error:
            os.close(lock)
            raise Corrupt(str(path), f'it has a journal but lacks {error.filename}') from error
        except BaseException:
            os.close(lock)
            raise
        folder = cls(path, lock, generation, journal, epoch, dict(about or {}))
        folder._clean()
        return folder, Found(snapshot, records)

    @property
    def records(self) -> int:
        """Count the records since the snapshot."""
        return self._journal.count - 1

    def record(self, words: Mapping[str, Any], image: SegmentImage | None = None) -> None:
        """Keep a record, and what shows its image; both are on the disk when this returns.

        Raises:
            StoreError: the disk refused; the record is not kept.
        """
        if image is not None and image.tensors is not None:
            file = self.path / f'{IMAGE}{image.sha256}{ENDING}'
            if not file.exists():
                write_whole(file, encode(image.tensors, {'sha256': image.sha256}))
        self._journal.append(words)

    def image(self, sha256: str) -> SegmentImage:
        """Return an image that a record spoke of; without tensors if it is not at hand.

        Raises:
            Corrupt: its file is damaged.
        """
        file = self.path / f'{IMAGE}{sha256}{ENDING}'
        try:
            tensors, _ = decode(map_file(file), file.name)
        except FileNotFoundError:
            return SegmentImage(sha256)
        return SegmentImage(sha256, {name: tensor.clone() for name, tensor in tensors.items()})

    def checkpoint(self, snapshot: Snapshot) -> None:
        """Put a snapshot in the place of all records so far; it must hold what they did.

        Raises:
            StoreError: the disk refused; the records are kept.
        """
        after = self.generation + 1
        write_whole(_snapshot(self.path, after), snapshot.parts())
        head = {**self._about, EPOCH: self.epoch}
        journal = Journal.create(self.path / f'{JOURNAL}{after}', head)
        self._journal.close()
        self._journal, self.generation = journal, after
        self._clean()

    def close(self) -> None:
        """Let go of the folder; it can be taken up again."""
        self._journal.close()
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def remove(self) -> None:
        """Delete the folder and all that it holds."""
        self.close()
        for file in self.path.iterdir():
            file.unlink()
        self.path.rmdir()

    def _clean(self) -> None:
        """Delete what no generation needs any more."""
        keep = {LOCK, f'{JOURNAL}{self.generation}', _snapshot(self.path, self.generation).name}
        remove_leftovers(self.path)
        for file in self.path.iterdir():
            if file.name not in keep and not (file.name.startswith(IMAGE) and self.records):
                file.unlink()


def _take_up(
    path: Path, generation: int, about: Record
) -> tuple[Journal, int, tuple[Record, ...]]:
    """Open the journal and begin an epoch in it; return its records without those of epochs."""
    file = path / f'{JOURNAL}{generation}'
    if not generation and not file.exists():
        return Journal.create(file, {**about, EPOCH: 1}), 1, ()
    journal, reading = Journal.open(file)
    epochs = [reading.head[EPOCH], *(one[EPOCH] for one in reading.records if EPOCH in one)]
    epoch = max(epochs) + 1
    journal.append({EPOCH: epoch})
    return journal, epoch, tuple(one for one in reading.records if EPOCH not in one)


def _generations(path: Path) -> list[int]:
    """Return the generations that count: those with a journal."""
    names = [file.name.removeprefix(JOURNAL) for file in path.glob(f'{JOURNAL}*')]
    return [int(name) for name in names if name.isdigit()]


def _snapshot(path: Path, generation: int) -> Path:
    return path / f'{SNAPSHOT}{generation}{ENDING}'


def _locked(path: Path) -> int:
    """Make the folder and return a lock on it that ends with the process."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        sync_folder(path.parent)
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(f'cannot make {path}: {error}') from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise StoreError(f'{path} is in use by another process: stop that one first') from error
    return lock

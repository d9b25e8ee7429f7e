# SPDX-License-Identifier: Apache-2.0
"""Append-only records of one session, on the disk before anything else happens.

    record   magic[4] | uint32 number | uint32 bytes | uint32 CRC of these | payload | uint32 CRC

The payload is JSON; record 0 is the head, which says what the records go on from. Who was killed
while writing leaves a torn last record: it was promised to nobody, and is cut off. Any other
damage is Corrupt, so that no promised record is ever lost in silence. Knows no session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import json
import os
from pathlib import Path
import struct
from typing import Any
import zlib

from cloud_backbone.kv_state.durable_file import write_whole
from cloud_backbone.kv_state.errors import Corrupt, StoreError

MAGIC = b'TdnJ'
FRAME = struct.Struct('<4sII')
WORD = struct.Struct('<I')
HEADER = FRAME.size + WORD.size
FORMAT = 1

Record = dict[str, Any]


@dataclass(frozen=True)
class Reading:
    """What a journal holds."""

    head: Record
    records: tuple[Record, ...]
    """Those after the head."""
    whole: int
    """Bytes of all whole records [B]; what is behind them is torn."""


class Journal:
    """Writes records at the end of a file; one writer at a time.

    Args:
        path: of the file, which is there.
        count: records in it, the head included.
    """

    def __init__(self, path: Path, count: int) -> None:
        self.path, self.count = path, count
        self._broken = ''
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise StoreError(f'cannot write {path}: {error}') from error

    @classmethod
    def create(cls, path: Path, head: Mapping[str, Any]) -> Journal:
        """Begin a new journal in the place of the old one, if there is one.

        Raises:
            StoreError: the disk refused; the old one is as it was.
        """
        write_whole(path, [_frame(0, {'format': FORMAT, **head})])
        return cls(path, 1)

    @classmethod
    def open(cls, path: Path) -> tuple[Journal, Reading]:
        """Go on with a journal; a torn last record is cut off.

        Raises:
            FileNotFoundError: there is none.
            Corrupt: a record is damaged.
            StoreError: the disk refused.
        """
        reading = read_journal(path)
        journal = cls(path, 1 + len(reading.records))
        if reading.whole < path.stat().st_size:
            journal._cut(reading.whole)
        return journal, reading

    @property
    def is_broken(self) -> bool:
        """Whether it takes no more records: the disk has refused one, or it is closed."""
        return bool(self._broken)

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a record; it is on the disk when this returns.

        Raises:
            StoreError: the disk refused; the record is not there.
        """
        if self._broken:
            raise StoreError(f'{self.path} takes no more records: {self._broken}')
        data, before = _frame(self.count, record), os.fstat(self._file).st_size
        try:
            while data:
                data = data[os.write(self._file, data) :]
            os.fsync(self._file)
        except OSError as error:
            # After a failed sync nobody knows what the disk holds: no more is promised.
            self._broken = str(error)
            os.ftruncate(self._file, before)
            raise StoreError(f'cannot write {self.path}: {error}') from error
        self.count += 1

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self._broken = -1, 'it is closed'

    def _cut(self, size: int) -> None:
        os.ftruncate(self._file, size)
        os.fsync(self._file)


def read_journal(path: Path) -> Reading:
    """Return what a journal holds, without changing it.

    Raises:
        FileNotFoundError: there is none.
        Corrupt: a record is damaged.
    """
    data, place = memoryview(path.read_bytes()), 0
    records: list[Record] = []
    while place < len(data):
        found = _read(data[place:], len(records), path.name)
        if found is None:
            break
        record, size = found
        records.append(record)
        place += size
    if not records:
        raise Corrupt(f'{path.name}: record 0', 'the head is torn, but it was written whole')
    if records[0].get('format') != FORMAT:
        raise Corrupt(
            f'{path.name}: record 0',
            f'format {records[0].get("format")} is not known, {FORMAT} is',
        )
    return Reading(records[0], tuple(records[1:]), place)


def _frame(number: int, record: Mapping[str, Any]) -> bytes:
    payload = json.dumps(record, separators=(',', ':')).encode()
    frame = FRAME.pack(MAGIC, number, len(payload))
    header = frame + WORD.pack(zlib.crc32(frame))
    return header + payload + WORD.pack(zlib.crc32(payload, zlib.crc32(header)))


def _read(data: memoryview, number: int, name: str) -> tuple[Record, int] | None:
    """Return a record and its bytes; None if it is torn."""
    chunk = f'{name}: record {number}'
    header = bytes(data[:HEADER])
    if not any(data):  # the file grew, its content did not reach the disk
        return None
    if len(header) < HEADER:
        if not MAGIC.startswith(header[: len(MAGIC)]):
            raise Corrupt(chunk, 'it does not begin like a record')
        return None
    magic, said, size = FRAME.unpack(header[: FRAME.size])
    if magic != MAGIC or WORD.unpack(header[FRAME.size :])[0] != zlib.crc32(header[: FRAME.size]):
        raise Corrupt(chunk, 'its header does not fit its checksum')
    if said != number:
        raise Corrupt(chunk, f'it says that it is record {said}')
    end = HEADER + size
    if end + WORD.size > len(data):
        return None
    payload, check = data[HEADER:end], bytes(data[end : end + WORD.size])
    if WORD.unpack(check)[0] != zlib.crc32(payload, zlib.crc32(header)):
        raise Corrupt(chunk, 'its content does not fit its checksum')
    record: Record = json.loads(bytes(payload))
    return record, end + WORD.size

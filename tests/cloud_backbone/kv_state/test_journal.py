# SPDX-License-Identifier: Apache-2.0
"""Promises of the journal: what was appended is there, whatever happens afterwards."""

import os
from pathlib import Path

from cloud_backbone.kv_state.errors import Corrupt, StoreError
from cloud_backbone.kv_state.journal import Journal, read_journal
import pytest

HEAD = {'base': 'abc'}
RECORDS = [{'kind': 'append', 'tokens': [1, 2, 3]}, {'kind': 'ä'}, {}, {'kind': 'crop', 'to': 7}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a journal of some records."""
    journal = Journal.create(tmp_path / 'journal', HEAD)
    for record in RECORDS:
        journal.append(record)
    journal.close()
    return journal.path


def ends(path: Path) -> list[int]:
    """Return where each record ends, the head first."""
    found = []
    whole = path.read_bytes()
    copy = path.with_name('copy')
    for size in range(1, len(whole) + 1):
        copy.write_bytes(whole[:size])
        try:
            reading = read_journal(copy)
        except Corrupt:
            continue
        if reading.whole == size:
            found.append(size)
    return found


def test_records_come_back_in_order(path: Path) -> None:
    """Head and records are what was written, and more can be appended."""
    journal, reading = Journal.open(path)
    assert reading.head == {'format': 1, **HEAD}
    assert list(reading.records) == RECORDS
    journal.append({'more': 1})
    journal.close()
    assert list(read_journal(path).records) == [*RECORDS, {'more': 1}]


def test_torn_last_record_is_cut_off_at_every_byte(path: Path) -> None:
    """Cut anywhere behind the head, the whole records are there, and the next one fits on."""
    whole, places = path.read_bytes(), ends(path)
    assert len(places) == 1 + len(RECORDS)
    for size in range(places[0], len(whole) + 1):
        path.write_bytes(whole[:size])
        journal, reading = Journal.open(path)
        count = sum(place <= size for place in places) - 1
        assert list(reading.records) == RECORDS[:count]
        journal.append({'next': size})
        journal.close()
        assert list(read_journal(path).records) == [*RECORDS[:count], {'next': size}]


def test_tail_that_never_reached_the_disk_is_cut_off(path: Path) -> None:
    """A file that grew by zeros holds no more records than before."""
    path.write_bytes(path.read_bytes() + bytes(300))
    journal, reading = Journal.open(path)
    journal.close()
    assert list(reading.records) == RECORDS


def test_one_wrong_byte_anywhere_is_noticed(path: Path) -> None:
    """No damaged record is taken for another one, or for a torn one and lost in silence."""
    good = path.read_bytes()
    for place in range(len(good)):
        for change in (0x01, 0x20, 0x80, 0xFF):
            bad = bytearray(good)
            bad[place] ^= change
            path.write_bytes(bad)
            with pytest.raises(Corrupt, match='record'):
                read_journal(path)


def test_record_that_is_missing_in_the_middle_is_noticed(path: Path) -> None:
    """Records are numbered: one that was cut out, or is there twice, is Corrupt."""
    whole, places = path.read_bytes(), ends(path)
    path.write_bytes(whole[: places[1]] + whole[places[2] :])
    with pytest.raises(Corrupt, match='says that it is record 3'):
        read_journal(path)
    path.write_bytes(whole[: places[2]] + whole[places[1] :])
    with pytest.raises(Corrupt, match='says that it is record 2'):
        read_journal(path)


def test_damaged_journal_is_not_changed(path: Path) -> None:
    """Opening a damaged journal raises and leaves every byte for whoever looks into it."""
    bad = bytearray(path.read_bytes())
    bad[len(bad) // 2] ^= 1
    path.write_bytes(bad)
    with pytest.raises(Corrupt):
        Journal.open(path)
    assert path.read_bytes() == bad


def test_record_is_synced_before_append_returns(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When append returns, the disk was told to keep the record."""
    journal, _ = Journal.open(path)
    sizes = []
    real = os.fsync
    monkeypatch.setattr(os, 'fsync', lambda number: (
        sizes.append(os.fstat(number).st_size), real(number)
    ))
    journal.append({'more': 1})
    journal.close()
    assert sizes == [path.stat().st_size]


def test_full_disk_is_an_error_and_leaves_whole_records(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that could not be written is not there, and no later one is promised."""
    journal, _ = Journal.open(path)
    real = os.write

    def half(number: int, data: bytes) -> int:
        if len(data) < 10:
            raise OSError(28, 'No space left on device')
        return real(number, data[:5])

    with monkeypatch.context() as patch:
        patch.setattr(os, 'write', half)
        with pytest.raises(StoreError, match='No space left'):
            journal.append({'more': 1})
    with pytest.raises(StoreError, match='takes no more records'):
        journal.append({'more': 2})
    journal.close()
    assert list(read_journal(path).records) == RECORDS


def test_new_journal_takes_the_place_of_the_old_at_once(path: Path) -> None:
    """Beginning anew replaces the file as a whole."""
    journal = Journal.create(path, {'base': 'next'})
    journal.close()
    assert read_journal(path).head['base'] == 'next'
    assert read_journal(path).records == ()


def test_unknown_format_is_refused(tmp_path: Path) -> None:
    """A journal of a later version is not guessed at."""
    journal = Journal.create(tmp_path / 'journal', {'format': 9})
    journal.close()
    with pytest.raises(Corrupt, match='format 9 is not known, 1 is'):
        read_journal(journal.path)


def test_missing_journal_is_told_apart(tmp_path: Path) -> None:
    """No file is no damage."""
    with pytest.raises(FileNotFoundError):
        read_journal(tmp_path / 'none')

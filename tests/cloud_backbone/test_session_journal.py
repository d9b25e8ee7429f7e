# SPDX-License-Identifier: Apache-2.0
"""Promises of a session's journal: wherever the process died, some first notes are there."""

from dataclasses import replace
import errno
import os
from pathlib import Path

from cloud_backbone import session_journal
from cloud_backbone.action_plan import Answer, Outcome, Plan
from cloud_backbone.embodiment import Camera, Embodiment
from cloud_backbone.kv_state import durable_file
from cloud_backbone.kv_state.errors import Corrupt, StoreError
from cloud_backbone.session_journal import SessionJournal
from cloud_backbone.session_record import (
    answer_record,
    epoch_record,
    history_record,
    Record,
    SessionRecord,
    StoredAnswer,
)
from cloud_backbone.task_history import TaskHistory
from cloud_backbone.task_memory import HistoryEntry, StepResult, TaskMemory, Tool, ToolCall
import pytest

CAMERA = Camera('c', 64, 64, 0.6, (0.0, 0.0, 1.0), (0.0, 1.0, 0.0, 0.0))
ARM = Embodiment('arm', ('a',), (CAMERA,), 'a', (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
STORED = 3


def fresh() -> SessionRecord:
    """Return a new session."""
    return SessionRecord('s' * 22, 'robot', ARM, 'full', 0)


def notes() -> list[Record]:
    """Return what happens in two trials of a task."""
    made, history = [epoch_record(1)], TaskHistory()
    for trial in (1, 2):
        for step in range(3):
            entry = HistoryEntry(step + 1, ToolCall(Tool.LOOK), StepResult.SEEN)
            memory = TaskMemory(trial, first_entry=step, entries=(entry,))
            after = history.with_memory('go', memory)
            made.append(history_record(history, after))
            answer = StoredAnswer(f'{step}', Answer(Plan(Outcome.DONE), reused_tokens=step))
            made.append(answer_record(f'{trial}-{step}', answer))
            history = after
    return [*made, epoch_record(2)]


def state(journal: SessionJournal) -> SessionRecord:
    """Return what a journal adds up to, for comparison."""
    return replace(journal.copy_of_record())


def test_every_cut_gives_a_beginning_of_the_notes(tmp_path: Path) -> None:
    """Cut the file at any byte: what comes back is the session after some of the notes."""
    journal = SessionJournal.create(tmp_path / 'whole', fresh(), STORED)
    head, known = (tmp_path / 'whole' / 'journal').stat().st_size, [state(journal)]
    for note in notes():
        journal.note(note)
        known.append(state(journal))
    journal.close()
    data = (tmp_path / 'whole' / 'journal').read_bytes()
    (tmp_path / 'cut').mkdir()
    reached = 0
    for size in range(head, len(data) + 1, 7):
        (tmp_path / 'cut' / 'journal').write_bytes(data[:size])
        again = SessionJournal.open(tmp_path / 'cut', STORED)
        reached = max(reached, known.index(state(again), reached))
        again.note(epoch_record(9))  # and it goes on
        again.close()
    assert reached >= len(known) - 2
    last = known[-1]
    assert (last.epoch, last.history.trial, len(last.history.entries)) == (2, 2, 3)
    assert list(last.answers) == ['2-0', '2-1', '2-2']


def test_a_long_journal_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it adds up to does not change, and its size stays bounded."""
    monkeypatch.setattr(session_journal, 'MOST_RECORDS', 4)
    plain = SessionJournal.create(tmp_path / 'a', fresh(), STORED)
    for note in notes():
        plain.note(note)
    expected = state(plain)
    plain.close()
    again = SessionJournal.open(tmp_path / 'a', STORED)
    assert state(again) == expected
    for epoch in range(100):
        again.note(epoch_record(epoch))
    assert (tmp_path / 'a' / 'journal').stat().st_size < 8_000


def test_a_record_of_another_kind_is_corrupt(tmp_path: Path) -> None:
    """Notes that no session writes are never guessed at."""
    journal = SessionJournal.create(tmp_path / 'a', fresh(), STORED)
    journal._journal.append({'dance': 1})
    journal.close()
    with pytest.raises(Corrupt, match='dance'):
        SessionJournal.open(tmp_path / 'a', STORED)


@pytest.mark.parametrize('refused', ['write', 'fsync', 'ftruncate'])
def test_a_disk_that_was_full_for_a_while_costs_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """The note that was refused is not there, all others are; nothing has to be restarted."""
    journal = SessionJournal.create(tmp_path / 'a', fresh(), STORED)
    made = notes()
    journal.note(made[0])
    with monkeypatch.context() as full:
        full.setattr(os, 'fsync' if refused == 'ftruncate' else refused, _full)
        full.setattr(os, refused, _full)
        for _ in range(3):
            with pytest.raises((StoreError, OSError), match='No space'):
                journal.note(epoch_record(77))
    for note in made[1:]:
        journal.note(note)
    expected = state(journal)
    journal.close()
    assert state(SessionJournal.open(tmp_path / 'a', STORED)) == expected
    assert expected.epoch == 2


def test_notes_never_go_to_a_file_that_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the disk refuses just after a new journal took the place of the old one."""
    monkeypatch.setattr(session_journal, 'MOST_RECORDS', 2)
    journal = SessionJournal.create(tmp_path / 'a', fresh(), STORED)
    for epoch in (1, 2):
        journal.note(epoch_record(epoch))
    with monkeypatch.context() as refusing:
        refusing.setattr(durable_file, 'sync_folder', _full)
        with pytest.raises(StoreError):
            journal.note(epoch_record(3))
    journal.note(epoch_record(4))
    journal.close()
    assert SessionJournal.open(tmp_path / 'a', STORED).record.epoch == 4


def _full(*args: object) -> None:
    raise OSError(errno.ENOSPC, 'No space left on device')

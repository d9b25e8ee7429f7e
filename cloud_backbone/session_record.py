# SPDX-License-Identifier: Apache-2.0
"""What must outlive the process of one session: who it is, its history, its answers.

Changes by records that a journal keeps; replaying them twice changes nothing. Knows no disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cloud_backbone.action_plan import Answer
from cloud_backbone.embodiment import Embodiment
from cloud_backbone.plain_data import from_plain, to_plain
from cloud_backbone.task_history import TaskHistory
from cloud_backbone.task_memory import HistoryEntry

Record = dict[str, Any]


@dataclass(frozen=True)
class StoredAnswer:
    """An answer that was given, with the digest of its question."""

    digest: str
    answer: Answer


@dataclass
class SessionRecord:
    """One session without its cache."""

    session_id: str
    robot_id: str
    embodiment: Embodiment
    cache_policy: str
    cache_budget_bytes: int
    fingerprint: str = ''
    """Of the model that gave the answers."""
    epoch: int = 0
    history: TaskHistory = field(default_factory=TaskHistory)
    answers: dict[str, StoredAnswer] = field(default_factory=dict)
    """By turn id, the oldest first."""

    def store(self, turn_id: str, answer: StoredAnswer, most: int) -> None:
        """Keep an answer, and the newest ones before it."""
        self.answers.pop(turn_id, None)
        self.answers[turn_id] = answer
        while len(self.answers) > most:
            del self.answers[next(iter(self.answers))]


def epoch_record(epoch: int) -> Record:
    """Return the record of a new epoch."""
    return {'epoch': epoch}


def history_record(before: TaskHistory, after: TaskHistory) -> Record:
    """Return the record of what a turn added to a history."""
    same = before.instruction == after.instruction and (
        (before.task_number, before.trial) == (after.task_number, after.trial)
    )
    first = len(before.entries) if same else 0
    table: Record = to_plain(after)
    return {'history': {**table, 'entries': table['entries'][first:]}, 'first_entry': first}


def answer_record(turn_id: str, stored: StoredAnswer) -> Record:
    """Return the record of an answer."""
    return {'turn_id': turn_id, 'stored': to_plain(stored)}


def head_record(record: SessionRecord) -> Record:
    """Return the whole session as one record."""
    table: Record = to_plain(record)
    return {'session': table}


def read_head(head: Record) -> SessionRecord:
    """Return the session that a head describes.

    Raises:
        ValueError: it describes none.
    """
    return from_plain(SessionRecord, head.get('session'))


def replay(session: SessionRecord, record: Record, stored_answers: int) -> None:
    """Apply one record.

    Raises:
        ValueError: it is none of a session, or does not go on from what was before.
    """
    if 'epoch' in record:
        session.epoch = from_plain(int, record['epoch'])
    elif 'turn_id' in record:
        stored = from_plain(StoredAnswer, record.get('stored'))
        session.store(from_plain(str, record['turn_id']), stored, stored_answers)
    elif 'history' in record:
        session.history = _grown(session.history, record)
    else:
        raise ValueError(f'a record has none of epoch, turn_id, history: {sorted(record)}')


def _grown(before: TaskHistory, record: Record) -> TaskHistory:
    first = from_plain(int, record.get('first_entry'))
    added = from_plain(TaskHistory, record['history'])
    if first > len(before.entries):
        raise ValueError(f'entry {first} follows {len(before.entries)} entries')
    entries: tuple[HistoryEntry, ...] = (*before.entries[:first], *added.entries)
    return TaskHistory(
        added.instruction, added.task_number, added.trial, added.lessons, entries
    )

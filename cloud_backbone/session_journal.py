# SPDX-License-Identifier: Apache-2.0
"""One session on the disk: a journal of its record in a folder of its own.

What ``note`` returns from is there after a crash. All methods may wait for the disk: never call
them on the event loop. Knows no cache.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
import re
import shutil

from cloud_backbone.kv_state.errors import Corrupt
from cloud_backbone.kv_state.journal import Journal
from cloud_backbone.session_record import (
    head_record,
    read_head,
    Record,
    replay,
    SessionRecord,
)

SESSION_ID = re.compile(r'[A-Za-z0-9_-]{16,64}')
JOURNAL = 'journal'
MOST_RECORDS = 256
"""After so many a journal is begun anew from what they add up to."""


class SessionJournal:
    """The journal of one session.

    Args:
        folder: of the session.
        record: what the journal adds up to; changed by ``note``.
        journal: where records go.
        stored_answers: how many answers are kept.
    """

    def __init__(
        self, folder: Path, record: SessionRecord, journal: Journal, stored_answers: int
    ) -> None:
        self.folder, self.record = folder, record
        self._journal, self._stored_answers = journal, stored_answers

    @classmethod
    def create(cls, folder: Path, record: SessionRecord, stored_answers: int) -> SessionJournal:
        """Begin the journal of a new session.

        Raises:
            StoreError: the disk refused.
        """
        folder.mkdir(parents=True, exist_ok=True)
        journal = Journal.create(folder / JOURNAL, head_record(record))
        return cls(folder, record, journal, stored_answers)

    @classmethod
    def open(cls, folder: Path, stored_answers: int) -> SessionJournal:
        """Go on with a journal.

        Raises:
            FileNotFoundError: there is none.
            Corrupt: it is damaged.
            StoreError: the disk refused.
        """
        journal, reading = Journal.open(folder / JOURNAL)
        try:
            record = read_head(reading.head)
            for one in reading.records:
                replay(record, one, stored_answers)
        except ValueError as error:
            journal.close()
            raise Corrupt(f'{folder.name}: {JOURNAL}', str(error)) from error
        return cls(folder, record, journal, stored_answers)

    def copy_of_record(self) -> SessionRecord:
        """Return what the journal adds up to, to go on with."""
        return replace(self.record, answers=dict(self.record.answers))

    def note(self, record: Record) -> None:
        """Keep a record; it is on the disk when this returns.

        Raises:
            StoreError: the disk refused; nothing has changed.
        """
        if self._journal.is_broken or self._journal.count > MOST_RECORDS:
            # The old file stays until the new one is whole; after a failure the next note
            # tries again, so that a disk that was full for a while costs no session.
            self._journal.close()
            self._journal = Journal.create(self.folder / JOURNAL, head_record(self.record))
        self._journal.append(record)
        replay(self.record, record, self._stored_answers)

    def close(self) -> None:
        """Let go of the file; the session stays on the disk."""
        self._journal.close()

    def remove(self) -> None:
        """Forget the session for good."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

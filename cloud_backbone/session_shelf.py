# SPDX-License-Identifier: Apache-2.0
"""Where sessions outlive the process: one folder each under the state directory.

The files of one session are touched by one thread, in the order of the calls; a lock keeps other
processes out. Snapshots have a thread of their own, so that no journal waits for one. A session
whose journal is damaged counts as lost, and the log says so. Knows no model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
import fcntl
import logging
import os
from pathlib import Path
import shutil
import time
from typing import TypeVar
import zlib

from cloud_backbone.errors import Reason, RetryCallError, StartError
from cloud_backbone.kv_state.errors import Corrupt, StoreError
from cloud_backbone.session_journal import JOURNAL, SESSION_ID, SessionJournal
from cloud_backbone.session_record import Record, SessionRecord

log = logging.getLogger(__name__)
LOCK = '.lock'
WRITERS = 4
"""Threads that journals share: the disk syncs several at once."""
TIDY_S = 3600.0
"""How often old sessions are looked for [s]."""
Result = TypeVar('Result')


class SessionKeeper:
    """Keeps the records of one session.

    Args:
        journal: of the session.
        shelf: that it stands on.
    """

    def __init__(self, journal: SessionJournal, shelf: SessionShelf) -> None:
        self._journal, self._shelf = journal, shelf

    @property
    def folder(self) -> Path:
        """Folder of the session."""
        return self._journal.folder

    async def note(self, record: Record) -> None:
        """Return when a record is on the disk. Raises RetryCallError where the disk refused."""
        session_id = self._journal.folder.name
        await self._shelf.run(lambda: self._journal.note(record), session_id)

    def close(self, for_good: bool) -> None:
        """Let go of the session, after what is being written; for good, or to go on later."""
        self._shelf.put_back(self._journal, for_good)


class SessionShelf:
    """All sessions of one state directory.

    Args:
        folder: the state directory.
        stored_answers: how many answers of a session are kept.
        keep_s: sessions that nobody took up for so long are forgotten [s].

    Raises:
        StartError: it cannot be written, or another process has it.
    """

    def __init__(self, folder: Path, stored_answers: int, keep_s: float) -> None:
        self._folder, self._stored_answers, self._keep_s = folder, stored_answers, keep_s
        self.snapshots = ThreadPoolExecutor(1, thread_name_prefix='snapshots')
        self._writers = [
            ThreadPoolExecutor(1, thread_name_prefix='journals') for _ in range(WRITERS)
        ]
        self._taken: set[str] = set()
        """Sessions whose journals are open."""
        self._tidied_s = -TIDY_S
        self._lock = _locked(folder)
        self._tidy()

    async def create(self, record: SessionRecord) -> SessionKeeper:
        """Begin to keep a session. Raises RetryCallError where the disk refused."""
        self.snapshots.submit(self._tidy)
        journal = await self.run(lambda: self._create(record), record.session_id)
        return SessionKeeper(journal, self)

    async def find(self, session_id: str) -> tuple[SessionRecord, SessionKeeper] | None:
        """Return a session that is on the disk; None where there is none, or none that is whole.

        Raises:
            RetryCallError: the disk refused.
        """
        if not SESSION_ID.fullmatch(session_id):
            return None
        journal = await self.run(lambda: self._open(self._folder / session_id), session_id)
        if journal is None:
            return None
        return journal.copy_of_record(), SessionKeeper(journal, self)

    async def holds(self, session_id: str) -> bool:
        """Say whether a session is on the disk, whole or not."""
        path = self._folder / session_id / JOURNAL
        return bool(SESSION_ID.fullmatch(session_id)) and await self.run(path.exists, session_id)

    async def run(self, work: Callable[[], Result], session_id: str | None = None) -> Result:
        """Write on the thread of a session's journal, or on that of snapshots.

        Raises:
            RetryCallError: the disk refused.
        """
        writer = self.snapshots if session_id is None else self._writer(session_id)
        try:
            return await asyncio.get_running_loop().run_in_executor(writer, work)
        except (StoreError, OSError) as error:
            log.error('state is not kept: %s', error)
            raise RetryCallError(
                Reason.INTERNAL, f"this backbone's disk refused: {error}; nothing was done"
            ) from error

    def put_back(self, journal: SessionJournal, for_good: bool) -> None:
        """Let go of a session, after what is being written."""
        self._writer(journal.folder.name).submit(self._put_back, journal, for_good)

    def remove(self, session_id: str) -> None:
        """Forget a session that is on the disk alone."""
        if SESSION_ID.fullmatch(session_id):
            folder = self._folder / session_id
            self._writer(session_id).submit(shutil.rmtree, folder, ignore_errors=True)

    def close(self) -> None:
        """Finish what is being written, and let other processes in."""
        for writer in (self.snapshots, *self._writers):
            writer.shutdown()
        os.close(self._lock)

    def _writer(self, session_id: str) -> ThreadPoolExecutor:
        return self._writers[zlib.crc32(session_id.encode()) % WRITERS]

    def _create(self, record: SessionRecord) -> SessionJournal:
        folder = self._folder / record.session_id
        journal = SessionJournal.create(folder, record, self._stored_answers)
        self._taken.add(record.session_id)
        return journal

    def _put_back(self, journal: SessionJournal, for_good: bool) -> None:
        self._taken.discard(journal.folder.name)
        if for_good:
            journal.remove()
        else:
            journal.close()

    def _open(self, folder: Path) -> SessionJournal | None:
        try:
            journal = SessionJournal.open(folder, self._stored_answers)
        except FileNotFoundError:
            return None
        except Corrupt as error:
            log.error('session %s is lost: %s', folder.name, error)
            return None
        self._taken.add(folder.name)
        return journal

    def _tidy(self) -> None:
        """Forget what nobody took up for too long; looks now and then."""
        if time.monotonic() - self._tidied_s < TIDY_S:
            return
        self._tidied_s, oldest_s = time.monotonic(), time.time() - self._keep_s
        for journal in self._folder.glob(f'*/{JOURNAL}'):
            if journal.stat().st_mtime < oldest_s:
                # In the order of the calls: it may be taken up in this moment.
                self._writer(journal.parent.name).submit(self._forget, journal.parent)

    def _forget(self, folder: Path) -> None:
        if folder.name not in self._taken:
            log.info('session %s is forgotten: nobody took it up', folder.name)
            shutil.rmtree(folder, ignore_errors=True)


def _locked(folder: Path) -> int:
    """Make the folder and return a lock on it that ends with the process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StartError(f'state_dir {folder} cannot be written: {error}') from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise StartError(
            f'state_dir {folder} is in use by another backbone: stop that one, or name another '
            'directory'
        ) from error
    return lock

# SPDX-License-Identifier: Apache-2.0
"""Where sessions outlive the process: one folder each under the state directory.

All files are touched by one thread of its own, in the order of the calls. A session whose journal
is damaged counts as lost, and the log says so. Knows no model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
import logging
from pathlib import Path
import shutil
import time
from typing import TypeVar

from cloud_backbone.errors import Reason, RetryCallError, StartError
from cloud_backbone.kv_state.errors import Corrupt, StoreError
from cloud_backbone.session_journal import JOURNAL, SESSION_ID, SessionJournal
from cloud_backbone.session_record import Record, SessionRecord

log = logging.getLogger(__name__)
Result = TypeVar('Result')


class SessionKeeper:
    """Keeps the records of one session.

    Args:
        journal: of the session.
        executor: the one thread that touches files.
    """

    def __init__(self, journal: SessionJournal, executor: Executor) -> None:
        self._journal, self._executor = journal, executor

    @property
    def folder(self) -> Path:
        """Folder of the session."""
        return self._journal.folder

    async def note(self, record: Record) -> None:
        """Return when a record is on the disk. Raises RetryCallError where the disk refused."""
        await _kept(self._executor, lambda: self._journal.note(record))

    def close(self, for_good: bool) -> None:
        """Let go of the session, after what is being written; for good, or to go on later."""
        self._executor.submit(self._journal.remove if for_good else self._journal.close)


class SessionShelf:
    """All sessions of one state directory.

    Args:
        folder: the state directory.
        stored_answers: how many answers of a session are kept.
        keep_s: sessions that nobody took up for so long are forgotten [s].

    Raises:
        StartError: it cannot be written.
    """

    def __init__(self, folder: Path, stored_answers: int, keep_s: float) -> None:
        self._folder, self._stored_answers, self._keep_s = folder, stored_answers, keep_s
        self.executor = ThreadPoolExecutor(1, thread_name_prefix='state')
        try:
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / '.writable'
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise StartError(f'state_dir {folder} cannot be written: {error}') from error
        self.executor.submit(self._forget_old)

    async def create(self, record: SessionRecord) -> SessionKeeper:
        """Begin to keep a session. Raises RetryCallError where the disk refused."""
        folder = self._folder / record.session_id
        journal = await _kept(
            self.executor, lambda: SessionJournal.create(folder, record, self._stored_answers)
        )
        return SessionKeeper(journal, self.executor)

    async def find(self, session_id: str) -> tuple[SessionRecord, SessionKeeper] | None:
        """Return a session that is on the disk; None where there is none, or none that is whole.

        Raises:
            RetryCallError: the disk refused.
        """
        if not SESSION_ID.fullmatch(session_id):
            return None
        folder = self._folder / session_id
        journal = await _kept(self.executor, lambda: self._open(folder))
        if journal is None:
            return None
        return journal.copy_of_record(), SessionKeeper(journal, self.executor)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Write on the one thread that touches files.

        Raises:
            RetryCallError: the disk refused.
        """
        return await _kept(self.executor, work)

    def remove(self, session_id: str) -> None:
        """Forget a session that is on the disk alone."""
        if SESSION_ID.fullmatch(session_id):
            self.executor.submit(shutil.rmtree, self._folder / session_id, ignore_errors=True)

    def close(self) -> None:
        """Finish what is being written."""
        self.executor.shutdown()

    def _open(self, folder: Path) -> SessionJournal | None:
        try:
            return SessionJournal.open(folder, self._stored_answers)
        except FileNotFoundError:
            return None
        except Corrupt as error:
            log.error('session %s is lost: %s', folder.name, error)
            return None

    def _forget_old(self) -> None:
        oldest_s = time.time() - self._keep_s
        for folder in self._folder.iterdir():
            journal = folder / JOURNAL
            if journal.is_file() and journal.stat().st_mtime < oldest_s:
                log.info('session %s is forgotten: nobody took it up', folder.name)
                shutil.rmtree(folder, ignore_errors=True)


async def _kept(executor: Executor, work: Callable[[], Result]) -> Result:
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, work)
    except (StoreError, OSError) as error:
        log.error('state is not kept: %s', error)
        raise RetryCallError(
            Reason.INTERNAL, f"this backbone's disk refused: {error}; nothing was done"
        ) from error

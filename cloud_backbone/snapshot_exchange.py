# SPDX-License-Identifier: Apache-2.0
"""Snapshots that backbones hand to each other: in a folder, or in a Redis or Valkey server.

Beside the cache a snapshot says who the session is, what its robot did and what was answered, so
that another backbone can go on with it. One thread talks to the store, and every wait for it has
an end. Knows no model; whether keys and values fit the one that is served, ``restore`` finds out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
import logging
from pathlib import Path
from typing import TypeVar

from cloud_backbone.config import BackboneConfig, shown_store
from cloud_backbone.errors import FixRequestError, Reason, RetryCallError, StartError
from cloud_backbone.kv_state.errors import Corrupt, NotStored, StoreError
from cloud_backbone.kv_state.redis_store import RedisStore
from cloud_backbone.kv_state.snapshot import Snapshot
from cloud_backbone.kv_state.state_store import FolderStore, SnapshotStore
from cloud_backbone.messages import Hello
from cloud_backbone.session_journal import SESSION_ID
from cloud_backbone.session_record import head_record, read_head, SessionRecord
from cloud_backbone.turn_checks import check_hello
from protos.protocol import PROTOCOL_VERSION

log = logging.getLogger(__name__)
WAIT_S = 30.0
"""The longest that a call waits for the store, with the calls before it [s]."""
LEFTOVERS_S = 3600.0
"""Half a file that is older was given up by whoever wrote it [s]."""
Result = TypeVar('Result')


class SnapshotExchange:
    """Snapshots of whole sessions by session id.

    Args:
        store: of the snapshots; used on one thread.
        where: what the setting names, without a password; for messages.
        wait_s: the longest wait for the store [s].
    """

    def __init__(self, store: SnapshotStore, where: str, wait_s: float = WAIT_S) -> None:
        self._store, self._where, self._wait_s = store, where, wait_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix='exchange')

    async def put(self, record: SessionRecord, snapshot: Snapshot) -> int:
        """Store a session in the place of its older snapshot; return its bytes [B].

        Raises:
            RetryCallError: the store refused, or did not answer in time.
        """
        whole = replace(snapshot, meta={**snapshot.meta, 'words': head_record(record)})
        return await self._on_thread(lambda: self._store.save(record.session_id, whole.parts()))

    async def get(self, session_id: str) -> tuple[SessionRecord, Snapshot]:
        """Return a session as it was stored; damaged keys and values are named in it.

        Raises:
            FixRequestError: there is none of this id, or it cannot be read.
            RetryCallError: the store refused, or did not answer in time.
        """
        if not SESSION_ID.fullmatch(session_id):
            raise FixRequestError(
                Reason.NO_SNAPSHOT,
                f'{session_id[:64]!r} is no session id, allowed are {SESSION_ID.pattern}',
            )

        def load() -> tuple[SessionRecord, Snapshot]:
            snapshot = Snapshot.from_bytes(self._store.load(session_id), session_id)
            record = read_head(snapshot.meta['words'])
            if record.session_id != session_id:
                raise ValueError(f'it is of session {record.session_id!r}')
            return record, snapshot

        try:
            return await self._on_thread(load)
        except NotStored as error:
            raise FixRequestError(
                Reason.NO_SNAPSHOT,
                f'snapshot_store {self._where} has no session {session_id!r}: call Snapshot on '
                'the backbone that has it',
            ) from error
        except (Corrupt, ValueError, KeyError) as error:
            raise FixRequestError(
                Reason.NO_SNAPSHOT,
                f'session {session_id!r} in snapshot_store {self._where} is of no use: {error}: '
                'call Snapshot again',
            ) from error

    def forget(self, session_id: str) -> None:
        """Delete a session's snapshot soon; what goes wrong is in the log."""
        if SESSION_ID.fullmatch(session_id):
            self._thread.submit(self._forget, session_id)

    def close(self) -> None:
        """Take nothing more on; waits for nothing."""
        self._thread.shutdown(wait=False)

    def _forget(self, session_id: str) -> None:
        try:
            self._store.remove(session_id)
        except StoreError as error:
            log.error('the snapshot of a closed session stays: %s', error)

    async def _on_thread(self, work: Callable[[], Result]) -> Result:
        running = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            return await asyncio.wait_for(running, self._wait_s)
        except asyncio.TimeoutError as error:
            why = f'no answer within {self._wait_s:g} s'
            raise self._refused(why) from error
        except (StoreError, OSError) as error:
            raise self._refused(str(error)) from error

    def _refused(self, why: str) -> RetryCallError:
        log.error('snapshot_store %s: %s', self._where, why)
        return RetryCallError(
            Reason.INTERNAL,
            f'snapshot_store {self._where} refused: {why}; nothing has changed: look whether it '
            'is up and has room, then call again',
        )


def hello_of(record: SessionRecord) -> Hello:
    """Return what the robot of a session would say to take it up.

    Raises:
        FixRequestError: no robot may say so here.
    """
    hello = Hello(
        record.robot_id, PROTOCOL_VERSION, record.embodiment, record.cache_policy,
        record.cache_budget_bytes, record.session_id,
    )
    check_hello(hello)
    return hello


def exchange_of(config: BackboneConfig) -> SnapshotExchange | None:
    """Return where sessions are handed over, if the settings name a place; asks no server.

    Raises:
        StartError: the folder cannot be made, the address is none, or its client is missing.
    """
    place = config.snapshot_store
    if not place:
        return None
    where = shown_store(place)
    try:
        store: SnapshotStore = (
            RedisStore(place, ttl_s=config.limits.state_keep_s) if '://' in place
            else FolderStore(Path(place), LEFTOVERS_S)
        )
    except StoreError as error:
        raise StartError(f'snapshot_store {where}: {error}') from error
    return SnapshotExchange(store, where)

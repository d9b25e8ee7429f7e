# SPDX-License-Identifier: Apache-2.0
"""Caches of sessions on their way: out of memory, onto the disk, back, and what they hold now.

Whatever touches a cache runs on the model's thread, between two batches; files are written on the
shelf's. Knows sessions; knows neither model nor wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
import logging
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

from cloud_backbone.action_plan import Exactness
from cloud_backbone.errors import FixRequestError, PoolExhaustedError, Reason
from cloud_backbone.kv_cache.errors import PoolFullError
from cloud_backbone.kv_state.errors import StoreError
from cloud_backbone.kv_state.snapshot import load_snapshot, save_snapshot, Snapshot
from cloud_backbone.memory_cache import MemoryCache, Source
from cloud_backbone.messages import RestoreInfo, SegmentState, SessionState, SnapshotInfo
from cloud_backbone.session import Session
from cloud_backbone.session_shelf import SessionShelf
from cloud_backbone.snapshot_exchange import SnapshotExchange

log = logging.getLogger(__name__)
SNAPSHOT = 'cache.safetensors'
Result = TypeVar('Result')


class CacheMover:
    """Moves the caches of one server.

    Args:
        executor: the model's thread.
        introduce: tells a memory which model it is of.
        shelf: where sessions outlive the process; None: nowhere.
        host_bytes: the most that is kept in plain memory of caches without a shelf [B].
        exchange: takes the shelf's place for ``snapshot`` and ``restore``; None: nothing does.
    """

    def __init__(
        self, executor: Executor, introduce: Callable[[MemoryCache], object],
        shelf: SessionShelf | None, host_bytes: int = 0, exchange: SnapshotExchange | None = None,
    ) -> None:
        self._executor, self._shelf, self._host_bytes = executor, shelf, host_bytes
        self._introduce, self._exchange = introduce, exchange
        self._resting: WeakSet[MemoryCache] = WeakSet()

    def find_again(self, session: Session) -> None:
        """Let a session that was taken from the shelf find its snapshot, if there is one."""
        path = _path(session)
        if path is not None and path.is_file():
            session.memory.offer(partial(load_snapshot, path), 'disk')

    def leave(self, session: Session, for_good: bool) -> None:
        """Free what a session has in memory; unless for good, it can be brought back."""
        keeper = session.keeper
        if for_good or keeper is None or self._shelf is None:
            self._executor.submit(session.memory.clear)
        else:
            self._executor.submit(self._put_down, session)
        self._executor.submit(session.cache.clear)
        if keeper is not None:
            keeper.close(for_good)

    async def spill(self, session: Session) -> None:
        """Give the pages of an idle session back to the pool."""
        rest = self._rest if session.keeper is None else self._put_down
        await self._on_model(partial(rest, session))
        await self._on_model(session.cache.clear)

    async def snapshot(self, session: Session) -> SnapshotInfo:
        """Write what a session holds to the shared store, or else to the disk.

        Raises:
            FixRequestError: this server keeps nothing, or the session holds nothing.
            PoolExhaustedError: there is no room to bring back what was put down.
            RetryCallError: store or disk refused.
        """
        path = None if self._exchange is not None else self._place_of(session)
        snapshot = await self._on_model(partial(self._taken, session.memory))
        if snapshot is None:
            raise FixRequestError(
                Reason.NO_SNAPSHOT, 'the session holds no memory: ask a turn with memory first'
            )
        if self._exchange is not None:
            size = await self._exchange.put(session.copy_of_record(), snapshot)
        else:
            assert self._shelf is not None and path is not None
            size = await self._shelf.run(partial(save_snapshot, path, snapshot))
        return SnapshotInfo(size, snapshot.tokens)

    async def restore(self, session: Session, snapshot: Snapshot | None = None) -> RestoreInfo:
        """Bring a session's cache back from its snapshot.

        Args:
            session: whose cache it is.
            snapshot: what was found already; None: it is looked for here.

        Raises:
            FixRequestError: this server keeps nothing, or nothing of the session.
            PoolExhaustedError: there is no room for it.
            RetryCallError: the shared store refused.
        """
        if snapshot is None and self._exchange is not None:
            _, snapshot = await self._exchange.get(session.session_id)
        source = self._on_disk(session) if snapshot is None else partial(_itself, snapshot)
        memory = session.memory

        def bring_back() -> RestoreInfo:
            memory.clear()
            memory.offer(source, 'disk' if snapshot is None else 'memory')
            self._bring_back(memory)
            held = len(memory)
            classes = [one.exactness for one in memory.segments()]
            exactness = max(classes, key=lambda one: one.value, default=Exactness.LOST)
            return RestoreInfo(held, exactness, memory.note)

        return await self._on_model(bring_back)

    async def state(self, session: Session) -> SessionState:
        """Say what a session holds."""
        return await self._on_model(lambda: _state_of(session))

    def _rest(self, session: Session) -> None:
        """Give pages back, and keep what was in them in plain memory, if there is room."""
        session.memory.put_down()
        self._resting.add(session.memory)
        if sum(cache.resting_bytes for cache in self._resting) > self._host_bytes:
            session.memory.forget()

    def _put_down(self, session: Session) -> None:
        """Give pages back, then write what was in them; on the model's thread."""
        snapshot, path = session.memory.put_down(), _path(session)
        if snapshot is not None and path is not None and self._shelf is not None:
            self._shelf.snapshots.submit(self._written_down, session, snapshot, path)

    def _written_down(self, session: Session, snapshot: Snapshot, path: Path) -> None:
        try:
            save_snapshot(path, snapshot)
        except StoreError as error:
            log.error('a cache is not kept, its tokens are: %s', error)
            return
        self._executor.submit(session.memory.moved_to, partial(load_snapshot, path), 'disk')

    def _taken(self, memory: MemoryCache) -> Snapshot | None:
        """Return what a memory holds, or held when it was put down."""
        self._bring_back(memory)
        return memory.snapshot()

    def _bring_back(self, memory: MemoryCache) -> None:
        self._introduce(memory)
        try:
            memory.bring_back()
        except PoolFullError as error:
            raise PoolExhaustedError(str(error)) from error

    def _on_disk(self, session: Session) -> Source:
        path = self._place_of(session)
        if not path.is_file():
            raise FixRequestError(
                Reason.NO_SNAPSHOT, 'there is no snapshot of the session: take one first'
            )
        return partial(load_snapshot, path)

    def _place_of(self, session: Session) -> Path:
        path = _path(session)
        if path is None or self._shelf is None:
            raise FixRequestError(
                Reason.NO_SNAPSHOT,
                'this backbone keeps nothing on disk: start it with state_dir or snapshot_store '
                'set',
            )
        return path

    async def _on_model(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)


def _itself(snapshot: Snapshot) -> Snapshot:
    return snapshot


def _path(session: Session) -> Path | None:
    return None if session.keeper is None else session.keeper.folder / SNAPSHOT


def _state_of(session: Session) -> SessionState:
    history, memory, cache = session.history, session.memory, session.cache
    segments = memory.segments()
    if not segments and len(cache):
        exactness = Exactness.NUMERIC if cache.policy.lossless else Exactness.APPROXIMATE
        rest = len(cache) - cache.stable
        segments = [
            SegmentState('goal', cache.stable, exactness), SegmentState('scene', rest, exactness)
        ]
    return SessionState(
        session_id=session.session_id,
        epoch=session.epoch,
        trial=history.trial,
        entries=len(history.entries),
        lessons=history.lessons,
        segments=tuple(segments),
        cache_bytes=memory.byte_count + cache.byte_count,
        tier='pool' if len(cache) and memory.tier == 'tokens' else memory.tier,
        cache_policy=session.terms.policy.name,
        prefix_hash=memory.prefix_hash,
        note=memory.note,
    )

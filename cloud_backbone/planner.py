# SPDX-License-Identifier: Apache-2.0
"""The service without its wire: sessions are opened, turns asked and answered, things counted.

Knows sessions, the batcher and what a model needs; knows neither gRPC nor messages' bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
import logging
import time
from typing import Protocol

from cloud_backbone.action_plan import Answer
from cloud_backbone.cache_grants import CacheGrants
from cloud_backbone.cache_mover import CacheMover
from cloud_backbone.cache_needs import CacheNeeds
from cloud_backbone.cache_policies import ServedPolicies
from cloud_backbone.config import CacheConfig, LimitsConfig
from cloud_backbone.errors import DrainingError, PoolExhaustedError, Reason, ReopenSessionError
from cloud_backbone.memory_cache import MemoryCache
from cloud_backbone.messages import Hello, RestoreInfo, Stats, Turn, Welcome
from cloud_backbone.plan_vocabulary import Vocabulary
from cloud_backbone.session import Session
from cloud_backbone.session_record import SessionRecord
from cloud_backbone.session_shelf import SessionShelf
from cloud_backbone.session_store import Kept, SessionStore
from cloud_backbone.snapshot_exchange import hello_of, SnapshotExchange
from cloud_backbone.turn_batcher import TurnBatcher
from cloud_backbone.turn_checks import check_hello, check_memory, check_turn
from cloud_backbone.turn_planner import TurnJob

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelFacts:
    """What robots are told of the model."""

    fingerprint: str
    image_size: tuple[int, int]
    latent_size: int
    can_batch: bool
    cache: CacheNeeds
    vocabulary: Vocabulary | None = None
    """What memories may speak of; None: the model takes none."""


class PlansTurns(Protocol):
    """Answers batches of turns, on one thread."""

    def introduce(self, memory: MemoryCache) -> None:
        """Tell a memory which model it is of."""

    def plan(self, jobs: Sequence[TurnJob]) -> Sequence[Answer | BaseException]:
        """Return one answer or exception per job."""


class Planner:
    """All sessions of one model.

    Args:
        facts: of the model.
        turns: answers them, on the thread of ``executor``.
        executor: one thread.
        limits: how much is taken on.
        cache: the pool, and how sessions keep keys and values by default.
        policies: finds cache policies for the model.
        shelf: where sessions outlive this process; None: nowhere.
        exchange: where backbones hand sessions to each other; None: nowhere.

    Raises:
        StartError: this model cannot keep its cache so.
    """

    def __init__(
        self,
        facts: ModelFacts,
        turns: PlansTurns,
        executor: Executor,
        limits: LimitsConfig,
        cache: CacheConfig | None = None,
        policies: ServedPolicies | None = None,
        shelf: SessionShelf | None = None,
        exchange: SnapshotExchange | None = None,
    ) -> None:
        self.facts = facts
        batch = limits.max_batch if facts.can_batch else 1
        cache = cache or CacheConfig()
        self._grants = CacheGrants(cache, facts.cache, batch, policies)
        self._executor, self._shelf, self._exchange = executor, shelf, exchange
        self._opening = asyncio.Lock()
        self.caches = CacheMover(
            executor, turns.introduce, shelf, cache.host_bytes, exchange
        )
        self.sessions = SessionStore(limits, self._grants, self.caches.leave)
        self._plans = self._errors = 0
        self._closed = False
        self._moving: set[asyncio.Task[None]] = set()
        self._batcher: TurnBatcher[TurnJob, Answer] = TurnBatcher(
            turns.plan,
            executor,
            batch,
            limits.max_waiting_turns,
        )

    async def open(self, hello: Hello) -> tuple[Session, Welcome]:
        """Open or resume a session; with a shelf, also one of an earlier process.

        Raises:
            TurnError: the hello is refused.
        """
        self._check_open()
        check_hello(hello)
        async with self._opening:
            self._check_open()
            kept = await self._put_away(hello)
            session, resumed = self.sessions.open(hello, kept)
            epoch = session.epoch
            if kept is not None and session.keeper is kept[1]:
                self.caches.find_again(session)
            try:
                await self._keep(session)
                await session.keep_epoch(epoch)
            except BaseException:
                self.sessions.detach(session, epoch)
                raise
        return session, Welcome(
            session_id=session.session_id,
            epoch=epoch,
            resumed=resumed,
            fingerprint=self.facts.fingerprint,
            image_size=self.facts.image_size,
            latent_size=self.facts.latent_size,
            cache_policy=session.terms.policy.name,
            cache_budget_bytes=session.terms.budget_bytes,
        )

    def ask(self, session: Session, turn: Turn) -> asyncio.Task[Answer]:
        """Begin to answer a turn. The task fails with the turn's error.

        Raises:
            TurnError: the turn is refused at once.
        """
        self._check_open()
        received_ns = time.monotonic_ns()
        return session.ask(turn, lambda asked: self._answer(session, asked, received_ns))

    def count_error(self) -> None:
        """Note that a turn was answered with an error."""
        self._errors += 1

    def stats(self) -> Stats:
        """Return the counters."""
        return Stats(
            fingerprint=self.facts.fingerprint,
            open_sessions=len(self.sessions),
            plans=self._plans,
            errors=self._errors,
            batches=self._batcher.batch_count,
            cache_bytes=self.sessions.cache_bytes(),
            free_sessions=self._grants.free_sessions(),
        )

    def session(self, session_id: str) -> Session:
        """Return a session that is here.

        Raises:
            ReopenSessionError: it is not.
        """
        self._check_open()
        session = self.sessions.find(session_id)
        if session is None:
            raise ReopenSessionError(
                Reason.SESSION_LOST,
                'there is no such session here; a hello that names it brings it back, if it is '
                'on the disk',
            )
        return session

    async def restore(self, session_id: str) -> RestoreInfo:
        """Bring a session's cache back; from a shared store, also a session that is not here.

        Raises:
            TurnError: there is nothing of it, or no room for it.
        """
        unknown = session_id not in self.sessions
        if unknown and self._shelf is not None:
            unknown = not await self._shelf.holds(session_id)
        if not unknown or self._exchange is None:
            return await self.caches.restore(self.session(session_id))
        record, snapshot = await self._exchange.get(session_id)
        return await self.caches.restore(await self._move_in(record), snapshot)

    def close_session(self, session_id: str) -> bool:
        """Forget a session for good; say whether it was here."""
        was_open = self.sessions.close(session_id)
        if not was_open and self._shelf is not None:
            self._shelf.remove(session_id)
        if self._exchange is not None:
            self._exchange.forget(session_id)
        return was_open

    def close(self) -> None:
        """Refuse sessions and turns from now on."""
        self._closed = True

    async def idle(self) -> None:
        """Return when no turn is under way."""
        await self._batcher.idle()
        await self.sessions.settled()

    async def finish(self) -> None:
        """Put all sessions away; those that are kept go on in the next process."""
        self.close()
        async with self._opening:
            self.sessions.put_away()
        if self._shelf is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._finish_writing)
        if self._exchange is not None:
            self._exchange.close()

    def _finish_writing(self) -> None:
        assert self._shelf is not None
        # What the model's thread still hands over comes before the end of the shelf.
        self._executor.submit(lambda: None).result()
        self._shelf.close()

    def _check_open(self) -> None:
        if self._closed:
            raise DrainingError

    async def _computed(self, job: TurnJob, deadline_ns: int | None) -> Answer:
        """Compute a turn; where the pool is full, put caches down that are needed last."""
        for idle in self.sessions.idle():
            try:
                return await self._batcher.submit(job, job.session, deadline_ns)
            except PoolExhaustedError:
                log.info('the pool is full: session %s is put down', idle.session_id)
                await self.caches.spill(idle)
        return await self._batcher.submit(job, job.session, deadline_ns)

    def _put_down_unused(self) -> None:
        """Move caches out of memory that were not used for long."""
        for session in self.sessions.unused():
            task = asyncio.create_task(self.caches.spill(session))
            self._moving.add(task)
            task.add_done_callback(self._moving.discard)

    async def _put_away(self, hello: Hello) -> Kept | None:
        """Return the session that a robot names, if an earlier process or a lack of room left it.

        Answers of another model are not given again; what the robot did is as true as before.
        """
        if self._shelf is None or hello.session_id in self.sessions:
            return None
        found = await self._shelf.find(hello.session_id)
        if found is not None and found[0].fingerprint != self.facts.fingerprint:
            found[0].answers.clear()
        return found

    async def _keep(self, session: Session) -> None:
        session.answered_by(self.facts.fingerprint)
        if self._shelf is not None and session.keeper is None:
            session.keeper = await self._shelf.create(session.copy_of_record())

    async def _move_in(self, record: SessionRecord) -> Session:
        """Go on with a session of another backbone; its robot's next hello resumes it."""
        async with self._opening:
            self._check_open()
            here = self.sessions.find(record.session_id)
            if here is not None:
                return here
            if record.fingerprint != self.facts.fingerprint:
                record.answers.clear()
            session, _ = self.sessions.open(hello_of(record), (record, None))
            self.sessions.detach(session, session.epoch)
            await self._keep(session)
        return session

    async def _answer(self, session: Session, turn: Turn, received_ns: int) -> Answer:
        check_turn(turn, session.embodiment, self.facts.image_size)
        job, known = TurnJob(turn, session), 0
        if turn.memory is not None:
            check_memory(turn.memory, self.facts.vocabulary)
            history = await session.take_in(turn.instruction, turn.memory)
            job, known = replace(job, memory=history.whole(turn.memory)), len(history.entries)
        deadline_ns = received_ns + turn.deadline_ms * 1_000_000 if turn.deadline_ms else None
        answer = replace(await self._computed(job, deadline_ns), known_entries=known)
        self.sessions.touch(session, 0 if turn.memory is None else turn.memory.expected_resume_ms)
        self._put_down_unused()
        self._plans += 1
        # What is left of the time here was spent waiting, for the batch before or for the loop.
        total_ns = time.monotonic_ns() - received_ns
        queue_ns = total_ns - sum(answer.durations_ns.values())
        return replace(answer, durations_ns={'queue': queue_ns, **answer.durations_ns})

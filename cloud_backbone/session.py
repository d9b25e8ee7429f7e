# SPDX-License-Identifier: Apache-2.0
"""One robot's persistent state: who it is, its epoch, its caches, its task, its answers.

Answers each turn id once: a repeated id gets the stored answer, or waits for the one under way.
Lives on the event loop; only the caches are touched by the model's thread, one batch at a time.
With a keeper, what it has taken in and answered is on the disk before anybody hears of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from cloud_backbone.action_plan import Answer
from cloud_backbone.cache_grants import CacheTerms
from cloud_backbone.errors import FixRequestError, Reason, ReopenSessionError, RetryCallError
from cloud_backbone.kv_state.tier import Place, Tier
from cloud_backbone.memory_cache import MemoryCache
from cloud_backbone.messages import Turn
from cloud_backbone.session_cache import SessionCache
from cloud_backbone.session_record import (
    answer_record,
    epoch_record,
    history_record,
    Record,
    SessionRecord,
    StoredAnswer,
)
from cloud_backbone.task_history import TaskHistory
from cloud_backbone.task_memory import TaskMemory
from cloud_backbone.turn_digest import digest_of_turn

Compute = Callable[[Turn], Coroutine[Any, Any, Answer]]


class Keeper(Protocol):
    """Keeps the records of one session on a disk."""

    @property
    def folder(self) -> Path:
        """Folder of the session, where its snapshots are too."""

    async def note(self, record: Record) -> None:
        """Return when a record is kept. Raises RetryCallError where the disk refused."""

    def close(self, for_good: bool) -> None:
        """Let go of the session, after what is being written; for good, or to go on later."""


class Session:
    """State of one robot between turns and streams.

    Args:
        record: who it is and what it knows; the session goes on with it.
        max_pending: most turns under way.
        stored_answers: how many answers are kept.
        terms: of its caches.
        cache: for single questions.
        memory: for turns with memory.
        keeper: where records go; None: nowhere.
    """

    def __init__(
        self,
        record: SessionRecord,
        max_pending: int,
        stored_answers: int,
        terms: CacheTerms,
        cache: SessionCache,
        memory: MemoryCache,
        keeper: Keeper | None = None,
    ) -> None:
        self.session_id, self.robot_id = record.session_id, record.robot_id
        self.embodiment = record.embodiment
        self.terms, self.cache, self.memory, self.keeper = terms, cache, memory, keeper
        self.last_used_s = 0.0
        self.resumes_s = 0.0
        """When the robot wants its next answer, as far as it said."""
        self.attached = False
        """Whether a stream is open."""
        self._record = record
        self._max_pending, self._stored_answers = max_pending, stored_answers
        self._pending: dict[str, tuple[str, asyncio.Task[Answer]]] = {}
        self._lock = asyncio.Lock()
        self._taking: set[asyncio.Task[TaskHistory]] = set()

    @property
    def epoch(self) -> int:
        """Grows whenever a stream takes the session up."""
        return self._record.epoch

    @property
    def history(self) -> TaskHistory:
        """What it knows of its task."""
        return self._record.history

    @property
    def is_busy(self) -> bool:
        """Whether turns are under way."""
        return bool(self._pending)

    @property
    def byte_count(self) -> int:
        """Bytes of its caches in memory [B]."""
        return self.cache.byte_count + self.memory.byte_count

    @property
    def place(self) -> Place:
        """How much memory it takes, and for how long it will probably not be used."""
        return Place(
            self.session_id, Tier.POOL, self.byte_count, self.last_used_s, self.resumes_s
        )

    def tasks(self) -> list[asyncio.Task[Answer]]:
        """Return the turns under way."""
        return [task for _, task in self._pending.values()]

    def take_up(self) -> int:
        """Begin a new epoch for a new stream, and return it; older streams are fenced."""
        self._record.epoch += 1
        self.attached = True
        return self._record.epoch

    def copy_of_record(self) -> SessionRecord:
        """Return what it is and knows now, without its caches."""
        return replace(self._record, answers=dict(self._record.answers))

    def answered_by(self, fingerprint: str) -> None:
        """Note which model gives its answers from now on."""
        self._record.fingerprint = fingerprint

    async def keep_epoch(self, epoch: int) -> None:
        """Return when an epoch is kept. Raises RetryCallError where the disk refused."""
        if self.keeper is not None:
            await self.keeper.note(epoch_record(epoch))

    def ask(self, turn: Turn, compute: Compute) -> asyncio.Task[Answer]:
        """Return the task that answers a turn; it outlives the stream that asked.

        Raises:
            ReopenSessionError: the turn is of another epoch.
            FixRequestError: its id was used for another question.
            RetryCallError: too many turns of this session are under way.
        """
        if turn.epoch != self.epoch:
            raise ReopenSessionError(
                Reason.STALE_EPOCH,
                f'the turn is of epoch {turn.epoch}, the session is at epoch {self.epoch}',
            )
        digest = digest_of_turn(turn)
        stored = self._record.answers.get(turn.turn_id)
        if stored is not None:
            _check_same(turn, digest, stored.digest)
            return asyncio.create_task(_given(stored.answer))
        if turn.turn_id not in self._pending:
            if len(self._pending) >= self._max_pending:
                raise RetryCallError(
                    Reason.OVERLOADED,
                    f'{len(self._pending)} turns of this session are under way, '
                    f'allowed are {self._max_pending}',
                )
            task = asyncio.create_task(self._computed(turn, digest, compute))
            self._pending[turn.turn_id] = digest, task
            task.add_done_callback(lambda done: self._finish(turn.turn_id, done))
        pending, task = self._pending[turn.turn_id]
        _check_same(turn, digest, pending)
        return task

    async def take_in(self, instruction: str, memory: TaskMemory) -> TaskHistory:
        """Take in what a turn says of its task, once; return the whole history.

        What was begun is finished, even if the turn is withdrawn meanwhile.

        Raises:
            TurnError: it does not fit what is known, or could not be kept; nothing has changed.
        """
        task = asyncio.create_task(self._take_in(instruction, memory))
        self._taking.add(task)
        task.add_done_callback(self._taking.discard)
        return await asyncio.shield(task)

    def cancel(self, turn_id: str) -> None:
        """Withdraw a turn that is under way; others are ignored."""
        if turn_id in self._pending:
            self._pending[turn_id][1].cancel()

    def close(self) -> None:
        """Withdraw all turns."""
        for _, task in list(self._pending.values()):
            task.cancel()

    async def _take_in(self, instruction: str, memory: TaskMemory) -> TaskHistory:
        async with self._lock:
            before = self.history
            after = before.with_memory(instruction, memory)
            if after != before:
                if self.keeper is not None:
                    await self.keeper.note(history_record(before, after))
                self._record.history = after
            return after

    async def _computed(self, turn: Turn, digest: str, compute: Compute) -> Answer:
        answer = await compute(turn)
        stored = StoredAnswer(digest, answer)
        if self.keeper is not None:
            await self.keeper.note(answer_record(turn.turn_id, stored))
        self._record.store(turn.turn_id, stored, self._stored_answers)
        return answer

    def _finish(self, turn_id: str, task: asyncio.Task[Answer]) -> None:
        if turn_id in self._pending and self._pending[turn_id][1] is task:
            del self._pending[turn_id]
        if not task.cancelled():
            task.exception()  # whoever asked may be gone


def _check_same(turn: Turn, digest: str, known: str) -> None:
    if digest != known:
        raise FixRequestError(
            Reason.STEP_CONFLICT,
            f'turn {turn.turn_id!r} was asked before with another content: '
            'give a new question a new id',
        )


async def _given(answer: Answer) -> Answer:
    return answer

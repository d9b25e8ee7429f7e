# SPDX-License-Identifier: Apache-2.0
"""Turns that wait together run together, in one thread apart from the event loop.

Knows waiting, deadlines and batches; knows neither model nor wire.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
import time
from typing import Generic, TypeVar

from cloud_backbone.errors import Reason, RetryCallError

Job = TypeVar('Job')
Result = TypeVar('Result')


@dataclass
class _Waiting(Generic[Job, Result]):
    job: Job
    group: object
    deadline_ns: int | None
    future: asyncio.Future[Result] = field(default_factory=asyncio.Future)


class TurnBatcher(Generic[Job, Result]):
    """Collects jobs while a batch runs, then runs what has collected.

    Args:
        run: computes a batch in ``executor``; returns a result or an exception per job.
        executor: one thread.
        max_batch: most jobs in a batch.
        max_waiting: most jobs that wait.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Job]], Sequence[Result | BaseException]],
        executor: Executor,
        max_batch: int,
        max_waiting: int,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.batch_count = 0
        self._run, self._executor, self._now_ns = run, executor, now_ns
        self._max_batch, self._max_waiting = max_batch, max_waiting
        self._waiting: deque[_Waiting[Job, Result]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def submit(self, job: Job, group: object, deadline_ns: int | None) -> Result:
        """Return the result of a job; jobs of one group never share a batch.

        A job whose deadline passes while it waits is not run; one whose caller is cancelled
        while it waits is not run either.

        Raises:
            RetryCallError: too many jobs wait, or the deadline has passed.
        """
        if len(self._waiting) >= self._max_waiting:
            raise RetryCallError(
                Reason.OVERLOADED,
                f'{len(self._waiting)} turns wait at this backbone, allowed are '
                f'{self._max_waiting}',
            )
        waiting: _Waiting[Job, Result] = _Waiting(job, group, deadline_ns)
        self._waiting.append(waiting)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await waiting.future

    async def idle(self) -> None:
        """Return when nothing waits and nothing runs."""
        while self._worker is not None and not self._worker.done():
            await asyncio.wait({self._worker})

    async def _work(self) -> None:
        while self._waiting:
            batch = self._next_batch()
            if batch:
                await self._compute(batch)

    def _next_batch(self) -> list[_Waiting[Job, Result]]:
        batch: list[_Waiting[Job, Result]] = []
        later: list[_Waiting[Job, Result]] = []
        while self._waiting and len(batch) < self._max_batch:
            waiting = self._waiting.popleft()
            if waiting.future.done():
                continue
            if waiting.deadline_ns is not None and self._now_ns() > waiting.deadline_ns:
                waiting.future.set_exception(_late(self._now_ns() - waiting.deadline_ns))
            elif any(waiting.group is other.group for other in batch):
                later.append(waiting)
            else:
                batch.append(waiting)
        self._waiting.extendleft(reversed(later))
        return batch

    async def _compute(self, batch: list[_Waiting[Job, Result]]) -> None:
        jobs = [waiting.job for waiting in batch]
        results: Sequence[Result | BaseException]
        try:
            self.batch_count += 1
            loop = asyncio.get_running_loop()
            results = await loop.run_in_executor(self._executor, self._run, jobs)
        except Exception as error:
            results = [error] * len(jobs)
        for waiting, result in zip(batch, results, strict=True):
            if waiting.future.done():
                continue
            if isinstance(result, BaseException):
                waiting.future.set_exception(result)
            else:
                waiting.future.set_result(result)


def _late(by_ns: int) -> RetryCallError:
    return RetryCallError(
        Reason.DEADLINE_PASSED,
        f'the deadline passed {by_ns / 1e6:.0f} ms before the turn was begun; '
        'ask less often or allow more time',
    )

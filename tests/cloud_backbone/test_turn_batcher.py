# SPDX-License-Identifier: Apache-2.0
"""Promises of batching: who waits together runs together, nobody runs in vain or twice."""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
import threading

from cloud_backbone.errors import Reason, RetryCallError
from cloud_backbone.turn_batcher import TurnBatcher
import pytest


class Worker:
    """Records batches; the first waits until ``go`` is set."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.go = threading.Event()

    def run(self, jobs: Sequence[str]) -> list[str | BaseException]:
        """Return each job in capitals; a job that says fail fails."""
        self.batches.append(list(jobs))
        assert self.go.wait(10)
        return [ValueError(job) if 'fail' in job else job.upper() for job in jobs]


@pytest.fixture
def worker() -> Worker:
    """Return a worker that is held."""
    return Worker()


@pytest.fixture
def batcher(worker: Worker) -> Iterator[TurnBatcher[str, str]]:
    """Return a batcher of at most 3, with room for 5."""
    with ThreadPoolExecutor(1) as executor:
        yield TurnBatcher(worker.run, executor, 3, 5)
        worker.go.set()


async def begin(batcher: TurnBatcher[str, str], *jobs: str) -> list[asyncio.Task[str]]:
    """Submit jobs, each of its own group; the first runs alone."""
    tasks = []
    for job in jobs:
        tasks.append(asyncio.create_task(batcher.submit(job, object(), None)))
        await asyncio.sleep(0.02)
    return tasks


async def test_jobs_that_wait_share_a_batch(
    batcher: TurnBatcher[str, str], worker: Worker
) -> None:
    """While the first runs, the others collect, up to the limit."""
    tasks = await begin(batcher, 'a', 'b', 'c', 'd', 'e')
    worker.go.set()
    assert await asyncio.gather(*tasks) == ['A', 'B', 'C', 'D', 'E']
    assert worker.batches == [['a'], ['b', 'c', 'd'], ['e']]
    assert batcher.batch_count == 3


async def test_jobs_of_one_group_never_share_a_batch(
    batcher: TurnBatcher[str, str], worker: Worker
) -> None:
    """Two turns of one session run one after the other, in order."""
    first = await begin(batcher, 'a')
    group = object()
    tasks = [asyncio.create_task(batcher.submit(job, group, None)) for job in ('b', 'c')]
    other = asyncio.create_task(batcher.submit('d', object(), None))
    await asyncio.sleep(0.02)
    worker.go.set()
    await asyncio.gather(*first, *tasks, other)
    assert worker.batches == [['a'], ['b', 'd'], ['c']]


async def test_late_job_is_an_error_and_no_work(
    batcher: TurnBatcher[str, str], worker: Worker
) -> None:
    """A job whose deadline passes while it waits is not run."""
    first = await begin(batcher, 'a')
    late = asyncio.create_task(batcher.submit('late', object(), deadline_ns=1))
    await asyncio.sleep(0.02)
    worker.go.set()
    with pytest.raises(RetryCallError, match='the deadline passed') as caught:
        await late
    assert caught.value.reason is Reason.DEADLINE_PASSED
    await asyncio.gather(*first)
    await batcher.idle()
    assert worker.batches == [['a']]


async def test_cancelled_job_is_no_work(batcher: TurnBatcher[str, str], worker: Worker) -> None:
    """A job whose caller has gone is not run."""
    first, second = await begin(batcher, 'a', 'b')
    second.cancel()
    await asyncio.sleep(0.02)
    worker.go.set()
    await first
    await batcher.idle()
    assert worker.batches == [['a']]


async def test_too_many_jobs_are_refused(
    batcher: TurnBatcher[str, str], worker: Worker
) -> None:
    """What does not fit is told at once to come again."""
    tasks = await begin(batcher, 'a', 'b', 'c', 'd', 'e', 'f')
    with pytest.raises(RetryCallError, match='5 turns wait at this backbone, allowed are 5'):
        await batcher.submit('g', object(), None)
    worker.go.set()
    await asyncio.gather(*tasks)


async def test_one_failure_stays_with_its_job(
    batcher: TurnBatcher[str, str], worker: Worker
) -> None:
    """The others of its batch get their results, and the batcher goes on."""
    worker.go.set()
    first, second = await begin(batcher, 'fail', 'b')
    assert await second == 'B'
    with pytest.raises(ValueError, match='fail'):
        await first
    assert await batcher.submit('c', object(), None) == 'C'

# SPDX-License-Identifier: Apache-2.0
"""Runs jobs in several worker processes, with a bar; the first failure ends it all."""

from collections.abc import Callable, Sequence
import multiprocessing
import os
from typing import Any, TypeVar

from onboard_decoder.errors import OnboardError
from rich.console import Console
from rich.progress import Progress
from sim.errors import SimError
from tendon.errors import TendonError, WorkerFailed

Job = TypeVar('Job')
Result = TypeVar('Result')


def run_jobs(
    jobs: Sequence[Job], work: Callable[[Job], Result], workers: int | None, console: Console,
) -> list[Result]:
    """Run all jobs and return their results in the order of the jobs.

    Args:
      jobs: what to do.
      work: does one; it is sent to each process once and may keep things there.
      workers: processes; None takes one per core.
      console: for the bar.

    Raises:
      WorkerFailed: if one of them fails on purpose; its message is the job's.
    """
    count = min(workers or os.cpu_count() or 1, len(jobs))
    context = multiprocessing.get_context('spawn')
    with context.Pool(count, _adopt, (work,)) as pool, Progress(console=console) as progress:
        results = []
        for result in progress.track(pool.imap(_do, jobs), len(jobs), description='episodes'):
            if isinstance(result, _Failure):
                raise WorkerFailed(result.message)
            results.append(result)
        return results


class _Failure:
    """An error on its way to the parent, as text, since not every error can be sent."""

    def __init__(self, message: str) -> None:
        self.message = message


_work: Callable[[Any], Any]


def _adopt(work: Callable[[Any], Any]) -> None:
    """Take the work over in a new process."""
    global _work
    _work = work


def _do(job: Any) -> Any:
    try:
        return _work(job)
    except (OnboardError, SimError, TendonError) as error:
        return _Failure(str(error))

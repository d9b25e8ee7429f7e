# SPDX-License-Identifier: Apache-2.0
"""Judges methods in several processes, each with one thread and its own copy of the model."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
import logging
import multiprocessing
from pathlib import Path
from typing import Any, TypeVar

from tendon.bench_kv.contestants import find_method, Job
from tendon.bench_kv.passage import draw_passage
from tendon.bench_kv.pooled import read_passage, Sample
from tendon.bench_kv.quality import Examination, Quality
from tendon.bench_kv.size import Size
from tendon.bench_kv.subject import smollm2, Subject, tiny
from tendon.errors import WorkerFailed
import torch

RECALL_SEED = 1000
"""Added to the seed for the passage with facts."""


Wanted = TypeVar('Wanted')
Found = TypeVar('Found')


@dataclass(frozen=True)
class Failure:
    """A method that could not be judged."""

    name: str
    share: float | None
    reason: str


@dataclass
class Worker:
    """Judges jobs; reads the passages at the first one."""

    size: Size
    seed: int
    weights: Path | None
    """Folder of the converted weights; None: the tiny random model."""
    _examination: Examination | None = None

    def subject(self) -> Subject:
        """Load the model."""
        return tiny(self.seed) if self.weights is None else smollm2(self.weights)

    def __call__(self, job: Job) -> list[Quality | Failure]:
        """Judge one method at its budgets; a method that fails does not end the bench."""
        if self._examination is None:
            self._examination = self._build()
        found: list[Quality | Failure] = []
        method = find_method(job.method, self.weights is not None)
        for share in job.shares:
            try:
                found.append(self._examination.judge(method, share))
            except Exception as error:
                logging.getLogger(__name__).debug('%s failed', job.method, exc_info=True)
                reason = f'{type(error).__name__}: {error}'
                found.append(Failure(job.method, share, reason.splitlines()[0]))
        return found

    def _build(self) -> Examination:
        subject, size = self.subject(), self.size
        reading = draw_passage(
            subject.encode, size.context, size.following, size.needles, self.seed
        )
        recall = draw_passage(
            subject.encode, size.recall, 0, size.needles, self.seed + RECALL_SEED
        )
        return Examination(subject, reading, recall, size.inside, size.step)


@dataclass
class PassageWorker:
    """Lets some methods read passages, each named by the seed that draws it."""

    worker: Worker
    names: tuple[str, ...]
    share: float
    _subject: Subject | None = None

    def __call__(self, seed: int) -> list[Sample]:
        """Read one passage."""
        self._subject = self._subject or self.worker.subject()
        return read_passage(self._subject, self.worker.size, seed, self.names, self.share)


_worker: Any


def _adopt(worker: Any) -> None:
    """Take the worker over in a new process."""
    global _worker
    torch.set_num_threads(1)
    _worker = worker


def _work(job: Any) -> Any:
    return _worker(job)


def judge_all(
    worker: Callable[[Wanted], Found], jobs: Sequence[Wanted], processes: int
) -> Iterator[Found]:
    """Yield what the jobs found, in the order in which they end.

    Raises:
        WorkerFailed: a process died, for want of memory as a rule.
    """
    if processes < 2:
        yield from map(worker, jobs)
        return
    context = multiprocessing.get_context('spawn')
    with ProcessPoolExecutor(processes, context, _adopt, (worker,)) as pool:
        try:
            for done in as_completed([pool.submit(_work, job) for job in jobs]):
                yield done.result()
        except BrokenProcessPool as error:
            raise WorkerFailed(
                'a process of the bench died, as it does without memory; try: --workers 1'
            ) from error

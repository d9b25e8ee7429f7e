# SPDX-License-Identifier: Apache-2.0
"""One robot's persistent state: who it is, its epoch, its cache, its answers.

Answers each turn id once: a repeated id gets the stored answer, or waits for the one under way.
Lives on the event loop; only the cache is touched by the model's thread, one batch at a time.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any

from cloud_backbone.action_plan import Answer
from cloud_backbone.cache_grants import CacheTerms
from cloud_backbone.embodiment import Embodiment
from cloud_backbone.errors import Reason, ReopenSessionError, RetryCallError
from cloud_backbone.messages import Turn
from cloud_backbone.session_cache import SessionCache

Compute = Callable[[Turn], Coroutine[Any, Any, Answer]]


class Session:
    """State of one robot between turns and streams."""

    def __init__(
        self,
        session_id: str,
        robot_id: str,
        embodiment: Embodiment,
        max_pending: int,
        stored_answers: int,
        terms: CacheTerms,
        cache: SessionCache,
    ) -> None:
        self.session_id = session_id
        self.robot_id = robot_id
        self.embodiment = embodiment
        self.epoch = 0
        self.terms, self.cache = terms, cache
        self.last_used_s = 0.0
        self.attached = False
        """Whether a stream is open."""
        self._max_pending, self._stored_answers = max_pending, stored_answers
        self._pending: dict[str, asyncio.Task[Answer]] = {}
        self._answers: OrderedDict[str, Answer] = OrderedDict()

    def ask(self, turn: Turn, compute: Compute) -> asyncio.Task[Answer]:
        """Return the task that answers a turn; it outlives the stream that asked.

        Raises:
            ReopenSessionError: the turn is of another epoch.
            RetryCallError: too many turns of this session are under way.
        """
        if turn.epoch != self.epoch:
            raise ReopenSessionError(
                Reason.STALE_EPOCH,
                f'the turn is of epoch {turn.epoch}, the session is at epoch {self.epoch}',
            )
        if turn.turn_id in self._answers:
            return asyncio.create_task(_stored(self._answers[turn.turn_id]))
        if turn.turn_id not in self._pending:
            if len(self._pending) >= self._max_pending:
                raise RetryCallError(
                    Reason.OVERLOADED,
                    f'{len(self._pending)} turns of this session are under way, '
                    f'allowed are {self._max_pending}',
                )
            task = asyncio.create_task(compute(turn))
            self._pending[turn.turn_id] = task
            task.add_done_callback(lambda done: self._finish(turn.turn_id, done))
        return self._pending[turn.turn_id]

    def cancel(self, turn_id: str) -> None:
        """Withdraw a turn that is under way; others are ignored."""
        task = self._pending.get(turn_id)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Withdraw all turns."""
        for task in list(self._pending.values()):
            task.cancel()

    def _finish(self, turn_id: str, task: asyncio.Task[Answer]) -> None:
        if self._pending.get(turn_id) is task:
            del self._pending[turn_id]
        if task.cancelled() or task.exception() is not None:
            return
        self._answers[turn_id] = task.result()
        while len(self._answers) > self._stored_answers:
            self._answers.popitem(last=False)


async def _stored(answer: Answer) -> Answer:
    return answer

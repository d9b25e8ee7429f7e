# SPDX-License-Identifier: Apache-2.0
"""The service without its wire: sessions are opened, turns asked and answered, things counted.

Knows sessions, the batcher and what a model needs; knows neither gRPC nor messages' bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
import time
from typing import Protocol

from cloud_backbone.action_plan import Answer
from cloud_backbone.cache_grants import CacheGrants
from cloud_backbone.cache_needs import CacheNeeds
from cloud_backbone.cache_policies import ServedPolicies
from cloud_backbone.config import CacheConfig, LimitsConfig
from cloud_backbone.errors import DrainingError
from cloud_backbone.messages import Hello, Stats, Turn, Welcome
from cloud_backbone.session import Session
from cloud_backbone.session_store import SessionStore
from cloud_backbone.turn_batcher import TurnBatcher
from cloud_backbone.turn_checks import check_hello, check_turn
from cloud_backbone.turn_planner import TurnJob


@dataclass(frozen=True)
class ModelFacts:
    """What robots are told of the model."""

    fingerprint: str
    image_size: tuple[int, int]
    latent_size: int
    can_batch: bool
    cache: CacheNeeds


class PlansTurns(Protocol):
    """Answers batches of turns, on one thread."""

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
    ) -> None:
        self.facts = facts
        batch = limits.max_batch if facts.can_batch else 1
        self._grants = CacheGrants(cache or CacheConfig(), facts.cache, batch, policies)
        # On the model's thread: a turn of the session may be running there.
        self.sessions = SessionStore(
            limits, self._grants, lambda left: executor.submit(left.clear)
        )
        self._plans = self._errors = 0
        self._closed = False
        self._batcher: TurnBatcher[TurnJob, Answer] = TurnBatcher(
            turns.plan,
            executor,
            batch,
            limits.max_waiting_turns,
        )

    def open(self, hello: Hello) -> tuple[Session, Welcome]:
        """Open or resume a session.

        Raises:
            TurnError: the hello is refused.
        """
        self._check_open()
        check_hello(hello)
        session, resumed = self.sessions.open(hello)
        return session, Welcome(
            session_id=session.session_id,
            epoch=session.epoch,
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

    def close(self) -> None:
        """Refuse sessions and turns from now on."""
        self._closed = True

    async def idle(self) -> None:
        """Return when no turn is under way."""
        await self._batcher.idle()

    def _check_open(self) -> None:
        if self._closed:
            raise DrainingError

    async def _answer(self, session: Session, turn: Turn, received_ns: int) -> Answer:
        check_turn(turn, session.embodiment, self.facts.image_size)
        deadline_ns = received_ns + turn.deadline_ms * 1_000_000 if turn.deadline_ms else None
        answer = await self._batcher.submit(TurnJob(turn, session), session, deadline_ns)
        self._plans += 1
        # What is left of the time here was spent waiting, for the batch before or for the loop.
        total_ns = time.monotonic_ns() - received_ns
        queue_ns = total_ns - sum(answer.durations_ns.values())
        return replace(answer, durations_ns={'queue': queue_ns, **answer.durations_ns})

# SPDX-License-Identifier: Apache-2.0
"""All sessions of this server: as many as limits and cache allow, put away after a time.

Knows when to open, resume, put away and refuse; knows nothing of what a session does, nor of a
disk: a session with a keeper stays there when it is put away, any other is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
import secrets
import time

from cloud_backbone.cache_grants import CacheGrants, CacheTerms
from cloud_backbone.config import LimitsConfig
from cloud_backbone.errors import FixRequestError, Reason, RetryCallError
from cloud_backbone.messages import Hello
from cloud_backbone.session import Keeper, Session
from cloud_backbone.session_record import SessionRecord

Kept = tuple[SessionRecord, Keeper | None]
"""A session that was put away, and what keeps it, if anything does."""


class SessionStore:
    """Sessions by id.

    Args:
        limits: how many, and for how long.
        grants: gives each its cache.
        leave: told a session that is put away, and whether for good; frees its caches when no
            turn uses them.
    """

    def __init__(
        self,
        limits: LimitsConfig,
        grants: CacheGrants,
        leave: Callable[[Session, bool], object] = lambda session, for_good: None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits, self._grants, self._leave = limits, grants, leave
        self._now_s = now_s
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        """Count the sessions."""
        return len(self._sessions)

    def __contains__(self, session_id: str) -> bool:
        """Say whether a session is here."""
        return session_id in self._sessions

    def find(self, session_id: str) -> Session | None:
        """Return the session of an id, if it is here."""
        return self._sessions.get(session_id)

    def open(self, hello: Hello, kept: Kept | None = None) -> tuple[Session, bool]:
        """Resume the session that the robot names, or open a new one; say which.

        A session of another robot or embodiment counts as lost; one that is resumed keeps its
        cache as it is.

        Args:
            hello: what the robot wants.
            kept: the session that it names, where that was put away.

        Raises:
            FixRequestError: the cache cannot be as the robot wants it.
            RetryCallError: there are too many sessions, and all are in use.
        """
        terms = self._grants.terms(hello)
        session = self._sessions.get(hello.session_id)
        resumed = session is not None and _is_of(session, hello)
        if session is None and kept is not None and _is_of(kept[0], hello):
            session, resumed = self._begin(kept[0], self._former(hello, kept[0], terms)), True
            session.keeper = kept[1]
        elif session is None or not resumed:
            policy, budget = terms.policy.name, terms.budget_bytes
            session = self._begin(SessionRecord(
                secrets.token_urlsafe(16), hello.robot_id, hello.embodiment, policy, budget
            ), terms)
        session.take_up()
        return session, resumed

    def detach(self, session: Session, epoch: int) -> None:
        """Note that the stream of this epoch has ended; the session stays for a while."""
        if session.epoch == epoch:
            session.attached = False
            session.last_used_s = self._now_s()

    def close(self, session_id: str, for_good: bool = True) -> bool:
        """Let go of a session; say whether it was here."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()
            self._grants.take_back(session.terms)
            self._leave(session, for_good)
        return session is not None

    def put_away(self) -> None:
        """Let go of all sessions; those with a keeper can go on later."""
        for session_id in list(self._sessions):
            self.close(session_id, for_good=False)

    async def settled(self) -> None:
        """Return when every turn that is under way has been answered."""
        pending = [task for session in self._sessions.values() for task in session.tasks()]
        if pending:
            await asyncio.wait(pending)

    def unused(self) -> list[Session]:
        """Return sessions whose task has not gone on for longer than it may stay in memory.

        The few words of single questions may stay.
        """
        now_s, most_s = self._now_s(), self._limits.spill_after_s
        return [
            session for session in self.idle()
            if session.memory.byte_count and session.place.idle(now_s) > most_s
        ]

    def idle(self) -> list[Session]:
        """Return sessions in memory without turns under way, the one that is needed last first."""
        now_s = self._now_s()
        idle = [
            session for session in self._sessions.values()
            if not session.is_busy and session.byte_count
        ]
        return sorted(idle, key=lambda session: -session.place.wait(now_s))

    def touch(self, session: Session, expected_resume_ms: int) -> None:
        """Note that a session was answered, and when its robot wants the next answer [ms]."""
        session.last_used_s = self._now_s()
        session.resumes_s = session.last_used_s + expected_resume_ms / 1000

    def holds(self, session: Session) -> bool:
        """Say whether a session is still open."""
        return self._sessions.get(session.session_id) is session

    def cache_bytes(self) -> int:
        """Bytes that all caches own [B]."""
        return sum(session.byte_count for session in self._sessions.values())

    def _begin(self, record: SessionRecord, terms: CacheTerms) -> Session:
        self._make_room(terms.promised_bytes)
        cache, memory = self._grants.give(terms)
        limits = self._limits
        session = Session(
            record, limits.max_pending_turns, limits.stored_answers, terms, cache, memory
        )
        self._sessions[session.session_id] = session
        return session

    def _former(self, hello: Hello, record: SessionRecord, terms: CacheTerms) -> CacheTerms:
        """Return the terms that a session was opened with, if they can still be granted."""
        try:
            return self._grants.terms(replace(
                hello, cache_policy=record.cache_policy,
                cache_budget_bytes=record.cache_budget_bytes,
            ))
        except FixRequestError:
            return terms

    def _make_room(self, cache_bytes: int) -> None:
        """Put away what is too old, then the oldest without a stream until one more fits."""
        idle = [session for session in self._sessions.values() if not session.attached]
        idle.sort(key=lambda session: session.last_used_s)
        oldest_s = self._now_s() - self._limits.session_ttl_s
        for session in idle:
            full = len(self._sessions) >= self._limits.max_sessions
            full |= cache_bytes > self._grants.free_bytes
            if full or session.last_used_s < oldest_s:
                self.close(session.session_id, for_good=False)
        if len(self._sessions) >= self._limits.max_sessions:
            raise RetryCallError(
                Reason.OVERLOADED,
                f'{len(self._sessions)} sessions are in use, allowed are '
                f'{self._limits.max_sessions}',
            )


def _is_of(known: Session | SessionRecord, hello: Hello) -> bool:
    """Say whether a session is of the robot that says hello, with the same body."""
    return known.robot_id == hello.robot_id and known.embodiment == hello.embodiment

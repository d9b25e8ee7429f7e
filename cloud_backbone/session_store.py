# SPDX-License-Identifier: Apache-2.0
"""All sessions of this server: as many as limits and cache allow, forgotten after a time.

Knows when to open, resume, forget and refuse; knows nothing of what a session does.
"""

from __future__ import annotations

from collections.abc import Callable
import secrets
import time

from cloud_backbone.cache_grants import CacheGrants
from cloud_backbone.config import LimitsConfig
from cloud_backbone.errors import Reason, RetryCallError
from cloud_backbone.messages import Hello
from cloud_backbone.session import Session
from cloud_backbone.session_cache import SessionCache


class SessionStore:
    """Sessions by id.

    Args:
        limits: how many, and for how long.
        grants: gives each its cache.
        forget: told the cache of a session that is closed; frees it when no turn uses it.
    """

    def __init__(
        self,
        limits: LimitsConfig,
        grants: CacheGrants,
        forget: Callable[[SessionCache], object] = SessionCache.clear,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits, self._grants, self._forget = limits, grants, forget
        self._now_s = now_s
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        """Count the sessions."""
        return len(self._sessions)

    def open(self, hello: Hello) -> tuple[Session, bool]:
        """Resume the session that the robot names, or open a new one; say which.

        A session of another robot or embodiment counts as lost; one that is resumed keeps its
        cache as it is.

        Raises:
            FixRequestError: the cache cannot be as the robot wants it.
            RetryCallError: there are too many sessions, and all are in use.
        """
        terms = self._grants.terms(hello)
        session = self._sessions.get(hello.session_id)
        resumed = (
            session is not None
            and session.robot_id == hello.robot_id
            and session.embodiment == hello.embodiment
        )
        if session is None or not resumed:
            self._make_room(terms.promised_bytes)
            session = Session(
                secrets.token_urlsafe(16),
                hello.robot_id,
                hello.embodiment,
                self._limits.max_pending_turns,
                self._limits.stored_answers,
                terms,
                self._grants.give(terms),
            )
            self._sessions[session.session_id] = session
        session.epoch += 1
        session.attached = True
        return session, resumed

    def detach(self, session: Session, epoch: int) -> None:
        """Note that the stream of this epoch has ended; the session stays for a while."""
        if session.epoch == epoch:
            session.attached = False
            session.last_used_s = self._now_s()

    def close(self, session_id: str) -> bool:
        """Forget a session; say whether it was there."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()
            self._grants.take_back(session.terms)
            self._forget(session.cache)
        return session is not None

    def holds(self, session: Session) -> bool:
        """Say whether a session is still open."""
        return self._sessions.get(session.session_id) is session

    def cache_bytes(self) -> int:
        """Bytes that all caches own [B]."""
        return sum(session.cache.byte_count for session in self._sessions.values())

    def _make_room(self, cache_bytes: int) -> None:
        """Forget what is too old, then the oldest without a stream until one more fits."""
        idle = [session for session in self._sessions.values() if not session.attached]
        idle.sort(key=lambda session: session.last_used_s)
        oldest_s = self._now_s() - self._limits.session_ttl_s
        for session in idle:
            full = len(self._sessions) >= self._limits.max_sessions
            full |= cache_bytes > self._grants.free_bytes
            if full or session.last_used_s < oldest_s:
                self.close(session.session_id)
        if len(self._sessions) >= self._limits.max_sessions:
            raise RetryCallError(
                Reason.OVERLOADED,
                f'{len(self._sessions)} sessions are in use, allowed are '
                f'{self._limits.max_sessions}',
            )

# SPDX-License-Identifier: Apache-2.0
"""Promises of the session store."""

from dataclasses import replace

from cloud_backbone.cache_grants import CacheGrants
from cloud_backbone.cache_needs import CacheNeeds
from cloud_backbone.config import CacheConfig, LimitsConfig
from cloud_backbone.embodiment import Camera, Embodiment
from cloud_backbone.errors import FixRequestError, Reason, RetryCallError
from cloud_backbone.messages import Hello
from cloud_backbone.session import Session
from cloud_backbone.session_store import SessionStore
import pytest

CAMERA = Camera('c', 64, 64, 0.6, (0.0, 0.0, 1.0), (0.0, 1.0, 0.0, 0.0))
ARM = Embodiment('arm', ('a',), (CAMERA,), 'a', (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
HELLO = Hello('robot', 1, ARM)
NEEDS = CacheNeeds(longest_bytes=1000, longest_tokens=9, usual_bytes=800, shape=None)


class Clock:
    """A clock that stands until it is moved."""

    now_s = 0.0

    def __call__(self) -> float:
        """Read it [s]."""
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """Return a clock at 0."""
    return Clock()


def grants(sessions: int = 100) -> CacheGrants:
    """Return a pool for so many sessions, and one turn at a time."""
    return CacheGrants(CacheConfig(pool_bytes=1000 * (sessions + 1)), NEEDS, 1)


@pytest.fixture
def store(clock: Clock) -> SessionStore:
    """Return a store for two sessions that are kept for 10 s."""
    return SessionStore(LimitsConfig(max_sessions=2, session_ttl_s=10.0), grants(), now_s=clock)


def test_resumed_session_is_the_same_with_a_larger_epoch(store: SessionStore) -> None:
    """A robot that names its session gets it back; the epoch fences its old stream."""
    first, resumed = store.open(HELLO)
    assert (first.epoch, resumed) == (1, False)
    second, resumed = store.open(replace(HELLO, session_id=first.session_id))
    assert second is first
    assert (second.epoch, resumed) == (2, True)


@pytest.mark.parametrize(
    'change', [{'robot_id': 'thief'}, {'embodiment': replace(ARM, table_height=0.3)}]
)
def test_session_of_another_robot_counts_as_lost(
    store: SessionStore, change: dict[str, object]
) -> None:
    """Nobody resumes a session that another robot or another body opened."""
    first, _ = store.open(HELLO)
    other, resumed = store.open(replace(HELLO, session_id=first.session_id, **change))
    assert not resumed
    assert other.session_id != first.session_id


def test_full_store_refuses_while_all_are_in_use(store: SessionStore) -> None:
    """Sessions with a stream are never thrown out."""
    store.open(HELLO)
    store.open(HELLO)
    with pytest.raises(RetryCallError, match='2 sessions are in use, allowed are 2') as caught:
        store.open(HELLO)
    assert caught.value.reason is Reason.OVERLOADED


def test_oldest_session_without_a_stream_makes_room(store: SessionStore, clock: Clock) -> None:
    """The one that was left first goes first."""
    left_late, left_first = store.open(HELLO)[0], store.open(HELLO)[0]
    store.detach(left_first, left_first.epoch)
    clock.now_s = 1.0
    store.detach(left_late, left_late.epoch)
    store.open(HELLO)
    assert not store.holds(left_first)
    assert store.holds(left_late)


def test_session_expires_after_its_time(store: SessionStore, clock: Clock) -> None:
    """A session that nobody came back to is forgotten, though there is room."""
    session, _ = store.open(HELLO)
    store.detach(session, session.epoch)
    clock.now_s = 10.5
    store.open(HELLO)
    assert not store.holds(session)
    assert len(store) == 1


def test_end_of_a_fenced_stream_changes_nothing(store: SessionStore) -> None:
    """When the old stream of a resumed session ends, the session is still in use."""
    session, _ = store.open(HELLO)
    store.open(replace(HELLO, session_id=session.session_id))
    store.detach(session, 1)
    assert session.attached


def test_close_is_idempotent(store: SessionStore) -> None:
    """A session is there once and then it is not."""
    session, _ = store.open(HELLO)
    assert store.close(session.session_id)
    assert not store.close(session.session_id)
    assert store.cache_bytes() == 0


def test_session_without_a_stream_gives_its_cache_to_the_next(clock: Clock) -> None:
    """Where the pool is full, idle sessions go before a robot is refused."""
    left_alone: list[tuple[Session, bool]] = []
    store = SessionStore(
        LimitsConfig(), grants(2), lambda *left: left_alone.append(left), clock
    )
    kept, left = store.open(HELLO)[0], store.open(HELLO)[0]
    with pytest.raises(RetryCallError, match='needs 1000 bytes of cache, 0 of 3000') as caught:
        store.open(HELLO)
    assert caught.value.reason is Reason.OVERLOADED
    assert len(store) == 2
    store.detach(left, left.epoch)
    store.open(HELLO)
    assert store.holds(kept)
    assert left_alone == [(left, False)]


def test_unknown_policy_closes_nothing(store: SessionStore) -> None:
    """A hello that cannot be served costs no other robot its session."""
    idle, _ = store.open(HELLO)
    store.detach(idle, idle.epoch)
    with pytest.raises(FixRequestError, match="'squat9'"):
        store.open(replace(HELLO, cache_policy='squat9'))
    assert store.holds(idle)

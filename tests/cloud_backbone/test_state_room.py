# SPDX-License-Identifier: Apache-2.0
"""Promises about sessions for which there is no room, no disk, or no time."""

import os
from pathlib import Path
import threading
import time

from cloud_backbone.config import CacheConfig, LimitsConfig
from cloud_backbone.errors import StartError
from cloud_backbone.kv_state.journal import Journal
from cloud_backbone.session_shelf import SessionShelf
from protos import planner_pb2
import pytest

from tests.fakes.kept_server import ask, names, served, state_of
from tests.fakes.raw_client import RawClient
from tests.fakes.task_words import memory


def test_an_idle_session_leaves_memory_and_comes_back(tmp_path: Path) -> None:
    """After its time without a turn a cache is on the disk; its next turn takes it up again."""
    limits = LimitsConfig(spill_after_s=0.05)
    with served(tmp_path, limits) as server:
        with RawClient(server.address) as idle, RawClient(server.address) as busy:
            idle.hello()
            busy.hello()
            ask(idle, memory(0, 6))
            before = ask(idle, memory(6, 7), 2)
            deadline_s = time.monotonic() + 20
            while state_of(idle).tier != 'disk':
                assert time.monotonic() < deadline_s, state_of(idle)
                time.sleep(0.06)
                ask(busy, None)
            assert state_of(idle).byte_count == 0
            after = ask(idle, memory(7, 8), 3)
            assert after.computed_token_count == before.computed_token_count


@pytest.mark.parametrize(('host_bytes', 'tier'), [(1 << 20, 'memory'), (0, 'tokens')])
def test_without_a_directory_idle_caches_rest_in_memory(host_bytes: int, tier: str) -> None:
    """As far as there is room; the next turn takes up what is there, or computes it."""
    limits, cache = LimitsConfig(spill_after_s=0.05), CacheConfig(host_bytes=host_bytes)
    with served(None, limits, cache=cache) as server:
        with RawClient(server.address) as idle, RawClient(server.address) as busy:
            idle.hello()
            busy.hello()
            ask(idle, memory(0, 6))
            deadline_s = time.monotonic() + 20
            while state_of(idle).tier != tier:
                assert time.monotonic() < deadline_s, state_of(idle)
                time.sleep(0.06)
                ask(busy, None)
            after = ask(idle, memory(6, 7), 2)
            assert (after.reused_token_count > 0) == (tier == 'memory')


def test_a_full_disk_refuses_the_turn_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be kept is not taken in; the same turn succeeds later."""
    with served(tmp_path) as server, RawClient(server.address) as client:
        client.hello()
        ask(client, memory(0, 1))

        def full(*arguments: object) -> int:
            raise OSError(28, 'No space left on device')

        with monkeypatch.context() as broken:
            broken.setattr('cloud_backbone.session_journal.Journal.append', full)
            error = ask(client, memory(1, 2), 2, turn_id='mine').error
            assert 'No space left' in error.message
            assert error.remedy == planner_pb2.REMEDY_RETRY_CALL
        assert state_of(client).entry_count == 1
        assert ask(client, memory(1, 2), 2, turn_id='mine').known_entry_count == 2


def test_two_backbones_do_not_share_a_directory(tmp_path: Path) -> None:
    """The second one does not start and says why; when the first has ended, it does."""
    with served(tmp_path):
        with pytest.raises(StartError, match='in use by another backbone'):
            SessionShelf(tmp_path, 1, 1.0)
    SessionShelf(tmp_path, 1, 1.0).close()


def test_what_nobody_took_up_is_forgotten(tmp_path: Path) -> None:
    """A session that is older than it is kept is deleted at the next start, others are not."""
    with served(tmp_path) as server:
        with RawClient(server.address) as old, RawClient(server.address) as new:
            first, second = old.hello().session_id, new.hello().session_id
    long_ago_s = time.time() - 100.0
    os.utime(tmp_path / first / 'journal', (long_ago_s, long_ago_s))
    with served(tmp_path, LimitsConfig(state_keep_s=50.0)) as server:
        with RawClient(server.address) as client:
            assert not client.hello(session_id=first).resumed
        with RawClient(server.address) as client:
            assert client.hello(session_id=second).resumed
    assert first not in names(tmp_path)


def test_a_full_pool_puts_idle_sessions_down(tmp_path: Path) -> None:
    """Robots that are away make room for those that ask; nothing of them is lost."""
    small = CacheConfig(pool_bytes=200_000)
    with served(tmp_path, LimitsConfig(max_batch=1), cache=small) as server:
        clients = [RawClient(server.address) for _ in range(4)]
        for client in clients:
            client.hello()
        for client in clients:
            assert ask(client, memory(0, 60)).known_entry_count == 60
        tiers = [state_of(client).tier for client in clients]
        assert tiers[-1] == 'pool'
        assert 'disk' in tiers
        again = ask(clients[0], memory(60, 61), 2)
        assert again.known_entry_count == 61
        assert again.reused_token_count > again.computed_token_count
        for client in clients:
            client.close()


def test_a_session_that_no_pool_could_hold_is_told_so(tmp_path: Path) -> None:
    """Alone and still too large: the robot reads how much is missing, and the server lives on."""
    small = CacheConfig(pool_bytes=200_000)
    with served(tmp_path, LimitsConfig(max_batch=1), cache=small) as server:
        with RawClient(server.address) as client:
            client.hello()
            error = ask(client, memory(0, 256)).error
            assert error.reason == planner_pb2.ERROR_REASON_OVERLOADED
            assert error.remedy == planner_pb2.REMEDY_RETRY_CALL
            assert 'bytes of cache are wanted' in error.message
            assert ask(client, None, 2).WhichOneof('result') == 'plan'


def test_a_slow_disk_blocks_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a journal waits for its disk, other calls are answered at once."""
    with served(tmp_path) as server, RawClient(server.address) as client:
        client.hello()
        append = Journal.append
        waiting, goes_on = threading.Event(), threading.Event()

        def slow(journal: Journal, record: object) -> None:
            waiting.set()
            assert goes_on.wait(20)
            append(journal, record)  # type: ignore[arg-type]

        monkeypatch.setattr(Journal, 'append', slow)
        client.send_turn(client.turn(memory=memory(0, 1)))
        assert waiting.wait(20)
        client.stub.ClockSync(planner_pb2.ClockSyncRequest(), timeout=10)
        goes_on.set()
        assert client.receive().turn_answer.known_entry_count == 1

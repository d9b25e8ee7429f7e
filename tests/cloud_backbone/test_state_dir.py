# SPDX-License-Identifier: Apache-2.0
"""Promises about sessions that outlive the server, over a real connection."""

from collections.abc import Iterator
from contextlib import contextmanager
import itertools
import os
from pathlib import Path
import shutil
import threading
import time

from cloud_backbone.config import BackboneConfig, CacheConfig, LimitsConfig
from cloud_backbone.errors import StartError
from cloud_backbone.kv_state.journal import Journal
from cloud_backbone.session_shelf import SessionShelf
import grpc
from protos import plan_pb2, planner_pb2
import pytest

from tests.contracts.planner_contract import reason_of
from tests.fakes.backbone_server import BackboneServer
from tests.fakes.raw_client import jpeg, RawClient
from tests.fakes.scripted_backbone import ScriptedBackbone
from tests.fakes.task_words import memory, script, SENTENCE

TURNS = itertools.count()
State = planner_pb2.GetSessionStateResponse


@contextmanager
def served(
    folder: Path | None, limits: LimitsConfig | None = None,
    model: ScriptedBackbone | None = None, cache: CacheConfig | None = None,
) -> Iterator[BackboneServer]:
    """Serve a scripted model that keeps sessions in a folder."""
    config = BackboneConfig(
        state_dir='' if folder is None else str(folder), cache=cache or CacheConfig()
    )
    with BackboneServer(model or ScriptedBackbone(script), limits, config) as server:
        yield server


def ask(
    client: RawClient, asked: planner_pb2.TaskMemory | None, epoch: int = 1, **fields: object
) -> planner_pb2.TurnAnswer:
    """Ask with a memory and an image of its own."""
    turn = client.turn(**{'memory': asked, 'turn_id': f'turn-{next(TURNS)}', **fields})
    turn.observation.observation_epoch = epoch
    turn.observation.images[0].jpeg = jpeg(seed=epoch)
    return client.ask(turn)


def state_of(client: RawClient) -> State:
    """Return what the session of a client holds."""
    request = planner_pb2.GetSessionStateRequest(session_id=client.welcome.session_id)
    return client.stub.GetSessionState(request, timeout=10)


def names(folder: Path) -> list[str]:
    """Return the sessions in a state directory."""
    return [path.name for path in folder.iterdir() if path.is_dir()]


def crashed(folder: Path, copy: Path) -> Path:
    """Return a copy of a folder as it is now: what a killed process leaves behind."""
    return Path(shutil.copytree(folder, copy))


def test_a_session_goes_on_after_a_crash(tmp_path: Path) -> None:
    """History, lessons and answers are there again under a greater epoch; no entry is resent."""
    with served(tmp_path / 'a') as server, RawClient(server.address) as client:
        client.hello()
        session_id = client.welcome.session_id
        ask(client, memory(0, 2, trial=2, lessons=[SENTENCE]))
        given = ask(client, memory(2, 3, trial=2, lessons=[SENTENCE]), 2, turn_id='mine')
        left = crashed(tmp_path / 'a', tmp_path / 'b')
    with served(left) as server, RawClient(server.address) as client:
        welcome = client.hello(session_id=session_id)
        assert (welcome.session_id, welcome.resumed, welcome.epoch) == (session_id, True, 2)
        state = state_of(client)
        assert (state.trial, state.entry_count, list(state.lessons)) == (2, 3, [SENTENCE])
        again = ask(client, memory(0, 3, trial=2, lessons=[SENTENCE]), 2, turn_id='mine')
        assert again.plan == given.plan
        assert again.epoch == 2
        after = ask(client, memory(3, 4, trial=2, lessons=[SENTENCE]), 3)
        assert after.known_entry_count == 4
        assert after.reused_token_count == 0


def test_a_clean_shutdown_keeps_the_cache(tmp_path: Path) -> None:
    """The next process computes what is new, not the whole history."""
    with served(tmp_path) as server, RawClient(server.address) as client:
        client.hello()
        session_id = client.welcome.session_id
        ask(client, memory(0, 8))
        before = ask(client, memory(8, 9), 2)
    with served(tmp_path) as server, RawClient(server.address) as client:
        assert client.hello(session_id=session_id).resumed
        assert state_of(client).tier == 'disk'
        after = ask(client, memory(9, 10), 3)
        assert after.computed_token_count == before.computed_token_count
        assert state_of(client).tier == 'pool'
        assert state_of(client).note == ''


def test_a_corrupt_snapshot_falls_back_to_tokens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The turn is answered all the same; log and state say why it took longer."""
    with served(tmp_path) as server, RawClient(server.address) as client:
        client.hello()
        session_id = client.welcome.session_id
        whole = ask(client, memory(0, 8))
    (file,) = tmp_path.glob('*/cache.safetensors')
    data = bytearray(file.read_bytes())
    data[-100] ^= 1
    file.write_bytes(data)
    with served(tmp_path) as server, RawClient(server.address) as client:
        client.hello(session_id=session_id)
        after = ask(client, memory(8, 8), 2)
        assert after.plan.call.tool == plan_pb2.TOOL_GRASP
        assert after.computed_token_count == whole.computed_token_count
        assert 'is damaged' in state_of(client).note
    assert 'is damaged' in caplog.text


def test_another_model_is_refused_by_name(tmp_path: Path) -> None:
    """Keys and values of another model are not used, nor its answers given again."""
    with served(tmp_path) as server, RawClient(server.address) as client:
        client.hello()
        session_id = client.welcome.session_id
        ask(client, memory(0, 3), turn_id='mine')
    other = ScriptedBackbone(script)
    other.fingerprint = 'another-model'
    with served(tmp_path, model=other) as server, RawClient(server.address) as client:
        assert client.hello(session_id=session_id).resumed
        other.batches.clear()
        answer = ask(client, memory(0, 3), turn_id='mine')
        assert answer.known_entry_count == 3
        assert other.batches == [1]
        assert 'weights scripted-model' in state_of(client).note


def test_a_damaged_journal_is_a_lost_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What was promised cannot be kept: the robot gets a new session and the log says why."""
    with served(tmp_path) as server, RawClient(server.address) as client:
        client.hello()
        session_id = client.welcome.session_id
        ask(client, memory(0, 3))
    (file,) = tmp_path.glob('*/journal')
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with served(tmp_path) as server, RawClient(server.address) as client:
        welcome = client.hello(session_id=session_id)
        assert not welcome.resumed
        assert welcome.session_id != session_id
        assert ask(client, memory(3, 4)).error.expected_entry == 0
    assert 'is lost' in caplog.text


@pytest.mark.parametrize('change', [{'robot_id': 'thief'}, {'session_id': '../../etc/passwd_x'}])
def test_nobody_else_takes_a_session_up(tmp_path: Path, change: dict[str, str]) -> None:
    """A session on the disk is of the robot that opened it; other names are no paths."""
    with served(tmp_path) as server, RawClient(server.address) as client:
        client.hello()
        session_id = client.welcome.session_id
    with served(tmp_path) as server, RawClient(server.address) as client:
        assert not client.hello(**{'session_id': session_id, **change}).resumed


def test_a_closed_session_leaves_nothing(tmp_path: Path) -> None:
    """CloseSession deletes what is on the disk, in this process and in a later one."""
    with served(tmp_path) as server:
        with RawClient(server.address) as client, RawClient(server.address) as other:
            first, second = client.hello().session_id, other.hello().session_id
            request = planner_pb2.CloseSessionRequest(session_id=first)
            assert client.stub.CloseSession(request, timeout=10).was_open
    assert names(tmp_path) == [second]
    with served(tmp_path) as server, RawClient(server.address) as client:
        request = planner_pb2.CloseSessionRequest(session_id=second)
        client.stub.CloseSession(request, timeout=10, wait_for_ready=True)
    assert names(tmp_path) == []


def test_snapshot_and_restore_by_call(tmp_path: Path) -> None:
    """What is written on demand is what comes back, with its exactness."""
    with served(tmp_path) as server, RawClient(server.address) as client:
        client.hello()
        session = {'session_id': client.welcome.session_id}
        with pytest.raises(grpc.RpcError, match='holds no memory') as caught:
            client.stub.Snapshot(planner_pb2.SnapshotRequest(**session), timeout=10)
        assert reason_of(caught.value) == 'ERROR_REASON_NO_SNAPSHOT'
        with pytest.raises(grpc.RpcError, match='take one first'):
            client.stub.Restore(planner_pb2.RestoreRequest(**session), timeout=10)
        answer = ask(client, memory(0, 5))
        saved = client.stub.Snapshot(planner_pb2.SnapshotRequest(**session), timeout=10)
        assert saved.byte_count > 0
        assert saved.token_count == answer.computed_token_count
        ask(client, memory(5, 6), 2)
        back = client.stub.Restore(planner_pb2.RestoreRequest(**session), timeout=10)
        assert (back.token_count, back.note) == (saved.token_count, '')
        assert back.exactness == plan_pb2.EXACTNESS_NUMERIC
        state = state_of(client)
        names = [segment.name for segment in state.segments]
        assert names == ['system', 'goal', 'history', 'scene', 'scratch']
        assert state.entry_count == 6
        scene = state.segments[3]
        assert (scene.stalest_observation_epoch, scene.freshest_observation_epoch) == (1, 1)
        assert state.segments[2].stalest_observation_epoch == 0
        assert state.prefix_hash == answer.plan.certificate.prefix_hash


def test_without_a_state_directory_the_calls_say_so() -> None:
    """A server that keeps nothing names the setting that would."""
    with served(None) as server, RawClient(server.address) as client:
        client.hello()
        ask(client, memory(0, 1))
        session = planner_pb2.SnapshotRequest(session_id=client.welcome.session_id)
        with pytest.raises(grpc.RpcError, match='state_dir'):
            client.stub.Snapshot(session, timeout=10)
        with pytest.raises(grpc.RpcError, match='no such session') as caught:
            client.stub.GetSessionState(
                planner_pb2.GetSessionStateRequest(session_id='x'), timeout=10
            )
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


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

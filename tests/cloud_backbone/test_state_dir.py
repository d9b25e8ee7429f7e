# SPDX-License-Identifier: Apache-2.0
"""Promises about sessions that outlive the server, over a real connection."""

from pathlib import Path

import grpc
from protos import plan_pb2, planner_pb2
import pytest

from tests.contracts.planner_contract import reason_of
from tests.fakes.kept_server import ask, crashed, names, served, state_of
from tests.fakes.raw_client import RawClient
from tests.fakes.scripted_backbone import ScriptedBackbone
from tests.fakes.task_words import memory, script, SENTENCE


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

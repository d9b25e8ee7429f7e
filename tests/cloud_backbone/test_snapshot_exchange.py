# SPDX-License-Identifier: Apache-2.0
"""Promises about sessions that move from one backbone to another by a store that both reach."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
import socket
import sys
import threading
import time

from cloud_backbone.config import BackboneConfig, LimitsConfig, load_config
from cloud_backbone.errors import RetryCallError, StartError
from cloud_backbone.kv_state.state_store import FolderStore
from cloud_backbone.snapshot_exchange import exchange_of, SnapshotExchange
import grpc
from protos import plan_pb2, planner_pb2
import pytest

from tests.contracts.planner_contract import reason_of
from tests.fakes.backbone_server import BackboneServer
from tests.fakes.kept_server import ask, state_of
from tests.fakes.raw_client import RawClient
from tests.fakes.redis_server import program, redis_server
from tests.fakes.scripted_backbone import ScriptedBackbone
from tests.fakes.task_words import memory, script

UNKNOWN = 'no_such_session_here'


@pytest.fixture(params=['folder', 'redis'])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return what the setting says of an empty store."""
    if request.param == 'folder':
        yield str(tmp_path / 'store')
        return
    pytest.importorskip('redis')
    if program() is None:
        pytest.skip('NOT TESTED: no redis-server or valkey-server here; apt-get install one')
    with redis_server(tmp_path) as address:
        yield address


@contextmanager
def served(
    store: str, state_dir: Path | None = None, model: ScriptedBackbone | None = None
) -> Iterator[RawClient]:
    """Serve a scripted model that shares a store; give a client of it."""
    config = BackboneConfig(
        snapshot_store=store, state_dir='' if state_dir is None else str(state_dir)
    )
    with BackboneServer(model or ScriptedBackbone(script), config=config) as server:
        with RawClient(server.address) as client:
            yield client


def snapshot(client: RawClient, session_id: str) -> planner_pb2.SnapshotResponse:
    """Call Snapshot."""
    request = planner_pb2.SnapshotRequest(session_id=session_id)
    return client.stub.Snapshot(request, timeout=20, wait_for_ready=True)


def restored(client: RawClient, session_id: str) -> planner_pb2.RestoreResponse:
    """Call Restore."""
    request = planner_pb2.RestoreRequest(session_id=session_id)
    return client.stub.Restore(request, timeout=20, wait_for_ready=True)


@pytest.mark.parametrize('is_kept', [False, True])
def test_a_session_moves_to_another_backbone(store: str, is_kept: bool, tmp_path: Path) -> None:
    """History, answers and cache are there: the next turn computes what is new, nothing else."""
    place = tmp_path / 'other' if is_kept else None
    with served(store, tmp_path / 'one') as one, served(store, place) as other:
        session_id = one.hello().session_id
        ask(one, memory(0, 8))
        before = ask(one, memory(8, 9), 2, turn_id='mine')
        saved = snapshot(one, session_id)
        assert saved.byte_count > 0
        back = restored(other, session_id)
        assert (back.token_count, back.note) == (saved.token_count, '')
        assert back.exactness == plan_pb2.EXACTNESS_NUMERIC
        welcome = other.hello(session_id=session_id)
        assert (welcome.session_id, welcome.resumed) == (session_id, True)
        assert welcome.epoch > one.welcome.epoch
        assert state_of(other).tier == 'pool'
        assert ask(other, memory(8, 9), 2, turn_id='mine').plan == before.plan
        after = ask(other, memory(9, 10), 3)
        assert after.known_entry_count == 10
        assert after.computed_token_count == before.computed_token_count
    if place is not None:
        with served(store, place) as again:
            assert again.hello(session_id=session_id).resumed
            assert ask(again, memory(10, 11), 4).known_entry_count == 11


def test_a_backbone_with_another_model_refuses_by_name(store: str) -> None:
    """What the robot did is true; keys, values and answers of another model are not used."""
    model = ScriptedBackbone(script)
    model.fingerprint = 'another-model'
    with served(store) as one, served(store, model=model) as other:
        session_id = one.hello().session_id
        ask(one, memory(0, 3), turn_id='mine')
        snapshot(one, session_id)
        back = restored(other, session_id)
        assert back.token_count == 0
        assert back.exactness == plan_pb2.EXACTNESS_LOST
        assert 'weights scripted-model' in back.note
        assert other.hello(session_id=session_id).resumed
        model.batches.clear()
        assert ask(other, memory(3, 3), turn_id='mine').known_entry_count == 3
        assert model.batches == [1]


def test_a_session_that_is_here_gets_its_cache_back_alone(store: str) -> None:
    """Entries that came after the snapshot stay."""
    with served(store) as one:
        session_id = one.hello().session_id
        with pytest.raises(grpc.RpcError, match='holds no memory'):
            snapshot(one, session_id)
        ask(one, memory(0, 5))
        saved = snapshot(one, session_id)
        ask(one, memory(5, 6), 2)
        assert restored(one, session_id).token_count == saved.token_count
        assert state_of(one).entry_count == 6


def test_a_cache_that_was_put_down_can_be_stored(tmp_path: Path) -> None:
    """A session that idles is the one to move: its cache is fetched from where it rests."""
    config = BackboneConfig(snapshot_store=str(tmp_path))
    limits = LimitsConfig(spill_after_s=0.05)
    with BackboneServer(ScriptedBackbone(script), limits, config) as server:
        with RawClient(server.address) as one, RawClient(server.address) as busy:
            session_id = one.hello().session_id
            busy.hello()
            answer = ask(one, memory(0, 3))
            limit_s = time.monotonic() + 20
            while state_of(one).tier != 'memory':
                assert time.monotonic() < limit_s, state_of(one)
                time.sleep(0.06)
                ask(busy, None)
            assert snapshot(one, session_id).token_count == answer.computed_token_count


def test_what_was_never_stored_or_closed_is_told(store: str) -> None:
    """An unknown session is an error with its id, the store and the remedy; so is a closed one."""
    with served(store) as one, served(store) as other:
        session_id = one.hello().session_id
        ask(one, memory(0, 1))
        for name in (UNKNOWN, session_id):
            with pytest.raises(grpc.RpcError, match=f"no session '{name}': call Snapshot") as told:
                restored(other, name)
            assert reason_of(told.value) == 'ERROR_REASON_NO_SNAPSHOT'
        with pytest.raises(grpc.RpcError, match='is no session id'):
            restored(other, '../../etc/passwd_x')
        snapshot(one, session_id)
        one.stub.CloseSession(planner_pb2.CloseSessionRequest(session_id=session_id), timeout=20)
        # Calls to a store are in order: this one comes after the deletion.
        with pytest.raises(grpc.RpcError, match='no session'):
            restored(one, session_id)


def test_a_session_on_the_own_disk_is_not_overwritten(tmp_path: Path) -> None:
    """What a backbone has kept itself is newer than a snapshot: a hello brings it back."""
    store, place = str(tmp_path / 'store'), tmp_path / 'state'
    with served(store, place) as one:
        session_id = one.hello().session_id
        ask(one, memory(0, 2))
        snapshot(one, session_id)
        ask(one, memory(2, 4), 2)
    with served(store, place) as one:
        with pytest.raises(grpc.RpcError, match='a hello that names it'):
            restored(one, session_id)
        one.hello(session_id=session_id)
        assert state_of(one).entry_count == 4


def test_damaged_snapshots_are_refused_or_computed_anew(tmp_path: Path) -> None:
    """A damaged header is an error; damaged keys and values cost a prefill and are named."""
    with served(str(tmp_path / 'store')) as one, served(str(tmp_path / 'store')) as other:
        session_id = one.hello().session_id
        ask(one, memory(0, 3))
        snapshot(one, session_id)
        (file,) = (tmp_path / 'store').iterdir()
        whole = file.read_bytes()
        file.write_bytes(whole[:20] + b'?' + whole[21:])
        with pytest.raises(grpc.RpcError, match='is of no use: .* call Snapshot again'):
            restored(other, session_id)
        file.write_bytes(whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:])
        back = restored(other, session_id)
        assert back.token_count == 0
        assert 'is damaged' in back.note


def test_a_server_that_is_down_costs_the_call_alone() -> None:
    """The error names the address without its password; turns go on."""
    pytest.importorskip('redis')
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        address = f'127.0.0.1:{probe.getsockname()[1]}'
        with served(f'redis://robot:secret@{address}/0') as one:
            session_id = one.hello().session_id
            ask(one, memory(0, 1))
            for call in (snapshot, lambda client, _: restored(client, UNKNOWN)):
                with pytest.raises(grpc.RpcError, match=f'store redis://{address}/0 ref') as told:
                    call(one, session_id)
                assert reason_of(told.value) == 'ERROR_REASON_INTERNAL'
                assert 'secret' not in str(told.value)
            assert ask(one, memory(1, 2), 2).known_entry_count == 2


def test_a_store_that_never_answers_is_given_up(tmp_path: Path) -> None:
    """The wait ends with an error, and nothing else waits with it."""
    goes_on = threading.Event()

    class Silent(FolderStore):
        def load(self, key: str) -> object:
            goes_on.wait(20)
            return super().load(key)

    async def wait() -> bool:
        exchange = SnapshotExchange(Silent(tmp_path), 'there', wait_s=0.05)
        ticks = asyncio.create_task(asyncio.sleep(0.01))
        with pytest.raises(RetryCallError, match=r'no answer within 0\.05 s'):
            await exchange.get(UNKNOWN)
        exchange.close()
        return ticks.done()

    try:
        assert asyncio.run(wait())
    finally:
        goes_on.set()


@pytest.mark.parametrize(('place', 'message'), [
    ('http://me:secret@host', "snapshot_store is 'http://host', allowed are a folder, redis://"),
    ('redis://me:secret@host:port/0', r'snapshot_store redis://host:port/0: .* no address'),
    ('/dev/null/store', 'snapshot_store /dev/null/store: cannot keep snapshots'),
])
def test_impossible_places_stop_the_start(place: str, message: str) -> None:
    """Value and remedy are in the message, a password is not."""
    with pytest.raises(StartError, match=message) as told:
        exchange_of(load_config(None, {'snapshot_store': place}))
    assert 'secret' not in str(told.value)


def test_missing_client_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the client library the message names the extra."""
    monkeypatch.setitem(sys.modules, 'redis', None)
    with pytest.raises(StartError, match=r"redis://host.*pip install 'tendon\[shared\]'"):
        exchange_of(BackboneConfig(snapshot_store='redis://host'))


def test_without_a_place_there_is_none() -> None:
    """By default nothing is shared."""
    assert exchange_of(BackboneConfig()) is None

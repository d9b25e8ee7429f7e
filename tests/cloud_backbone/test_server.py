# SPDX-License-Identifier: Apache-2.0
"""Promises of the process: how it starts, refuses to start, and ends."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

from cloud_backbone.config import BackboneConfig, load_config, TlsConfig
from cloud_backbone.errors import LoadingError
from cloud_backbone.server import main
from cloud_backbone.serving import serve
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from protos import planner_pb2, planner_pb2_grpc
import pytest

from tests.contracts.planner_contract import reason_of
from tests.fakes.backbone_server import BackboneServer
from tests.fakes.raw_client import RawClient
from tests.fakes.scripted_backbone import ScriptedBackbone

STATUS = health_pb2.HealthCheckResponse


def run(*arguments: str) -> subprocess.Popen[str]:
    """Start the server as a process."""
    return subprocess.Popen(
        [sys.executable, '-m', 'cloud_backbone.server', *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def refused(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> str:
    """Return the one sentence of a server that does not start."""
    assert main(arguments) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


def test_busy_port_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """A port that is taken is named with the remedy, before any model is loaded."""
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
        message = refused(capsys, ['--port', str(port)])
    assert f'cannot listen on 127.0.0.1:{port}' in message
    assert '--port' in message


def test_directory_without_weights_is_one_sentence(
    tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A checkpoint without weights is named with the remedy."""
    shutil.copytree(tiny_checkpoint, tmp_path / 'empty')
    (tmp_path / 'empty' / 'model.safetensors').unlink()
    message = refused(capsys, ['--port', '0', '--checkpoint', str(tmp_path / 'empty')])
    assert 'has no weights' in message
    assert 'tendon distill' in message


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['--host', '0.0.0.0'], 'insecure: true'),
        (['--set', 'limits.max_sesions=1'], 'unknown key limits.max_sesions'),
        (['--set', 'port'], 'write KEY=VALUE'),
        (['--config', 'no-such-file.yaml'], 'no-such-file.yaml'),
        (['--host', '192.0.2.1', '--insecure'], 'cannot listen on 192.0.2.1'),
    ],
)
def test_wrong_options_are_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """A wrong option stops the start with what is wrong."""
    assert message in refused(capsys, arguments)


def test_process_serves_and_ends_on_a_signal(tiny_checkpoint: Path) -> None:
    """It says where it serves in one line, answers, refuses a second one, and ends with 0."""
    process = run('--checkpoint', str(tiny_checkpoint), '--port', '0')
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith('backbone serves at 127.0.0.1:')
        address = line.split()[3].rstrip(',')
        with RawClient(address) as client:
            client.hello()
            assert client.ask().WhichOneof('result') == 'plan'
            second = run('--port', address.split(':')[1])
            _, errors = second.communicate(timeout=120)
            assert (second.returncode, len(errors.strip().splitlines())) == (2, 1)
            process.send_signal(signal.SIGTERM)
            with pytest.raises(grpc.RpcError) as caught:
                client.receive()
        assert reason_of(caught.value) == 'ERROR_REASON_DRAINING'
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def test_turn_under_way_is_finished_before_the_end() -> None:
    """A server that is told to stop answers what it has begun, then ends its streams."""
    backbone = ScriptedBackbone()
    with BackboneServer(backbone) as server, RawClient(server.address) as client:
        client.hello()
        backbone.delay_s = 0.5
        client.send_turn(client.turn(turn_id='mine'))
        time.sleep(0.1)
        stopper = threading.Thread(target=server.stop)
        stopper.start()
        time.sleep(0.1)
        client.send_turn(client.turn(turn_id='too-late'))
        answers = {client.receive().turn_answer.turn_id: None for _ in range(2)}
        with pytest.raises(grpc.RpcError) as caught:
            client.receive()
        stopper.join()
    assert set(answers) == {'mine', 'too-late'}
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert reason_of(caught.value) == 'ERROR_REASON_DRAINING'


async def test_health_says_serving_only_when_turns_are_taken(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the model loads, health says NOT_SERVING and calls are told to come again."""
    loading, done, stop = threading.Event(), threading.Event(), asyncio.Event()

    def load(*_: object, **__: object) -> ScriptedBackbone:
        loading.set()
        assert done.wait(10)
        return ScriptedBackbone()

    with socket.create_server(('127.0.0.1', 0)) as probe:
        port = probe.getsockname()[1]
    monkeypatch.setattr('cloud_backbone.model_thread.load_backbone', load)
    config = replace(BackboneConfig(), port=port, checkpoint=str(tiny_checkpoint))
    serving = asyncio.create_task(serve(config, stop=stop, on_ready=lambda *_: None))
    await asyncio.to_thread(loading.wait, 10)
    async with grpc.aio.insecure_channel(f'127.0.0.1:{port}') as channel:
        health = health_pb2_grpc.HealthStub(channel)
        stub = planner_pb2_grpc.PlannerStub(channel)
        request = health_pb2.HealthCheckRequest()
        assert (await health.Check(request, wait_for_ready=True)).status == STATUS.NOT_SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetStats(planner_pb2.GetStatsRequest())
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        assert caught.value.details() == str(LoadingError())
        done.set()
        while (await health.Check(request)).status != STATUS.SERVING:
            await asyncio.sleep(0.02)
        await stub.GetStats(planner_pb2.GetStatsRequest())
        stop.set()
        await serving


@pytest.fixture(scope='module')
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an authority and certificates of a server and a robot."""
    if shutil.which('openssl') is None:
        pytest.skip('openssl makes the certificates of this test and is not installed')
    folder = tmp_path_factory.mktemp('certificates')
    new = ['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256',
           '-nodes', '-days', '2', '-addext', 'subjectAltName=DNS:localhost']  # fmt: skip
    for name in ('server', 'robot'):
        files = ['-keyout', str(folder / f'{name}.key'), '-out', str(folder / f'{name}.pem')]
        subprocess.run([*new, '-subj', f'/CN={name}', *files], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize('mutual', [False, True])
def test_tls_robots_get_in_and_others_do_not(certificates: Path, mutual: bool) -> None:
    """With TLS plain text is refused; with mutual TLS a robot needs its certificate."""
    tls = TlsConfig(
        str(certificates / 'server.pem'),
        str(certificates / 'server.key'),
        str(certificates / 'robot.pem') if mutual else '',
    )
    config = replace(load_config(None, {}), tls=tls)
    root = (certificates / 'server.pem').read_bytes()
    robot = [(certificates / f'robot.{kind}').read_bytes() for kind in ('key', 'pem')]
    with BackboneServer(ScriptedBackbone(), config=config) as server:
        target = server.address.replace('127.0.0.1', 'localhost')
        channels = {
            'plain': grpc.insecure_channel(target),
            'anonymous': grpc.secure_channel(target, grpc.ssl_channel_credentials(root)),
            'robot': grpc.secure_channel(target, grpc.ssl_channel_credentials(root, *robot)),
        }
        reached = {name: _reaches(channel) for name, channel in channels.items()}
    assert reached == {'plain': False, 'anonymous': not mutual, 'robot': True}


def _reaches(channel: grpc.Channel) -> bool:
    with channel:
        stub = planner_pb2_grpc.PlannerStub(channel)
        try:
            stub.ClockSync(planner_pb2.ClockSyncRequest(), timeout=5)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE
            return False
        return True

# SPDX-License-Identifier: Apache-2.0
"""Promises about what a robot says where it cannot reach a backbone, at real ports."""

from concurrent import futures
from contextlib import contextmanager
import http.server
import socket
import ssl
import subprocess
import threading

import grpc
from onboard_decoder.errors import SettingsError
from onboard_decoder.link_reason import explain
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_client import PlannerClient
from protos import planner_pb2, planner_pb2_grpc
from protos.protocol import CLIENT_OPTIONS
import pytest

TIMEOUT_S = 20.0


def reason_at(address, credentials=None):
    """Return what is said of an address."""
    options = [*CLIENT_OPTIONS, ('grpc.use_local_subchannel_pool', 1)]
    channel = (
        grpc.insecure_channel(address, options) if credentials is None
        else grpc.secure_channel(address, credentials, options)
    )
    with channel:
        stub = planner_pb2_grpc.PlannerStub(channel)
        call = stub.Session(iter([planner_pb2.SessionRequest()]), timeout=TIMEOUT_S)
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
    return explain(caught.value, address)


@pytest.fixture(autouse=True)
def no_proxy_is_set(monkeypatch):
    """The machine's own proxies are not the subject."""
    for name in ('grpc_proxy', 'https_proxy', 'http_proxy', 'no_grpc_proxy', 'no_proxy'):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope='module')
def certificate(tmp_path_factory):
    """Return key and certificate for a host that is called "other"."""
    folder = tmp_path_factory.mktemp('tls')
    key, certificate = folder / 'key.pem', folder / 'certificate.pem'
    subprocess.run(
        ['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', str(key),
         '-out', str(certificate), '-days', '2', '-subj', '/CN=other',
         '-addext', 'subjectAltName=DNS:other'],
        check=True, capture_output=True,
    )
    return key, certificate


@contextmanager
def web_server(certificate=None):
    """A web server; with a certificate it speaks TLS."""
    server = http.server.ThreadingHTTPServer(
        ('127.0.0.1', 0), http.server.BaseHTTPRequestHandler)
    server.handle_error = lambda *broken: None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate[1], certificate[0])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f'127.0.0.1:{server.server_port}'
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def grpc_server(certificate=None):
    """A gRPC server without any service; with a certificate it speaks TLS."""
    server = grpc.server(futures.ThreadPoolExecutor(1))
    if certificate is None:
        port = server.add_insecure_port('127.0.0.1:0')
    else:
        pair = tuple(path.read_bytes() for path in certificate)
        port = server.add_secure_port('127.0.0.1:0', grpc.ssl_server_credentials([pair]))
    server.start()
    try:
        yield f'127.0.0.1:{port}'
    finally:
        server.stop(None).wait()


@pytest.mark.parametrize('host', ['127.0.0.1', '[::1]', 'localhost'])
def test_a_closed_port_is_named(host):
    """Over IPv4, over IPv6, and where a name has both."""
    with socket.create_server(('127.0.0.1', 0)) as probe:
        port = probe.getsockname()[1]

    reason = reason_at(f'{host}:{port}')

    assert reason.text.startswith(f'nothing listens at {host}:{port}')
    assert not reason.is_final


def test_a_host_without_address_is_named():
    """The name is the trouble."""
    reason = reason_at('no-such-host.invalid:50251')

    assert reason.text == 'host of no-such-host.invalid:50251 is unknown; check its name'


def test_a_web_server_is_told_from_a_backbone():
    """As where the port of a proxy or of a page was given."""
    with web_server() as address:
        assert 'another protocol than gRPC' in reason_at(address).text


def test_a_web_server_with_tls_is_told_from_a_backbone(certificate):
    """It hangs up on plain text."""
    with web_server(certificate) as address:
        assert 'is it a port for TLS?' in reason_at(address).text


def test_another_service_is_told_from_a_backbone():
    """Trying again soon would not help."""
    with grpc_server() as address:
        reason = reason_at(address)

    assert 'is a gRPC server but no Tendon backbone' in reason.text
    assert reason.is_final


def test_a_port_for_tls_is_told_to_a_robot_without(certificate):
    """Not that the backbone were gone."""
    with grpc_server(certificate) as address:
        assert 'is it a port for TLS?' in reason_at(address).text


def test_a_port_without_tls_is_told_to_a_robot_with(certificate):
    """Both ways out are named."""
    trusted = grpc.ssl_channel_credentials(certificate[1].read_bytes())
    with grpc_server() as address:
        assert 'speaks plain text and this robot TLS' in reason_at(address, trusted).text


def test_a_certificate_of_strangers_is_named(certificate):
    """The authority is missing, not the port wrong."""
    with grpc_server(certificate) as address:
        reason = reason_at(address, grpc.ssl_channel_credentials())

    assert 'nobody that this robot trusts' in reason.text


def test_a_certificate_for_another_name_is_named(certificate):
    """The authority is right, the name is not."""
    trusted = grpc.ssl_channel_credentials(certificate[1].read_bytes())
    with grpc_server(certificate) as address:
        assert 'is for another name' in reason_at(address, trusted).text


def test_a_port_that_says_nothing_is_named():
    """It takes the connection, and that is all."""
    with socket.create_server(('127.0.0.1', 0)) as silent:
        address = f'127.0.0.1:{silent.getsockname()[1]}'
        assert reason_at(address).text.startswith(f'{address} listens but does not speak gRPC')


@pytest.mark.parametrize('name', ['http_proxy', 'https_proxy', 'grpc_proxy', 'HTTPS_PROXY'])
def test_a_proxy_that_is_passed_by_is_named_without_its_password(monkeypatch, name):
    """Somebody who needs it learns that it is not taken."""
    monkeypatch.setenv(name, 'http://user:secret@proxy.example:3128')

    text = reason_at('no-such-host.invalid:50251').text

    assert f'does not take the proxy of {name}, http://proxy.example:3128' in text
    assert 'secret' not in text


def test_a_proxy_with_an_exception_for_the_backbone_is_not_named(monkeypatch):
    """It is not the cause then."""
    monkeypatch.setenv('http_proxy', 'http://proxy.example:3128')
    monkeypatch.setenv('no_proxy', 'example.com,.invalid')

    assert 'proxy' not in reason_at('no-such-host.invalid:50251').text


def test_a_proxy_never_catches_the_link(monkeypatch):
    """With all of its variables set, a backbone beside the robot is asked directly."""
    with web_server() as proxy, grpc_server() as address:
        for name in ('grpc_proxy', 'https_proxy', 'http_proxy'):
            monkeypatch.setenv(name, f'http://{proxy}')
        reason = reason_at(address)

    assert 'is a gRPC server but no Tendon backbone' in reason.text


@pytest.mark.parametrize('address', [
    '', 'backbone', '127.0.0.1', '127.0.0.1:', '127.0.0.1:0', '127.0.0.1:99999', '::1:50251',
    'http://127.0.0.1:50251', 'host name:50251', '127.0.0.1:50251/plan',
])
def test_an_address_that_is_none_is_refused_at_once(address):
    """Otherwise gRPC would take another port without a word."""
    with pytest.raises(SettingsError, match='host:port with a port in 1..65535'):
        PlannerClient(address, 'robot-1', load_manifest('tendon_arm'))

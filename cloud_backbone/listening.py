# SPDX-License-Identifier: Apache-2.0
"""Where a server listens: is the port free, and with which certificates.

Knows sockets and gRPC credentials; knows nothing of what is served.
"""

from __future__ import annotations

from pathlib import Path
import socket

from cloud_backbone.config import BackboneConfig, TlsConfig
from cloud_backbone.errors import StartError
import grpc


def check_free(host: str, port: int) -> None:
    """Refuse a port that is taken, before anything slow is begun.

    Raises:
        StartError: with the address and what to do.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip('[]'), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise _taken(f'{host}:{port}', str(error.strerror or error)) from error


def bind(server: grpc.aio.Server, config: BackboneConfig) -> str:
    """Let a server listen as configured; return host and port.

    Raises:
        StartError: with the address and what to do.
    """
    address = f'{config.host}:{config.port}'
    try:
        if config.tls.certificate:
            port = server.add_secure_port(address, _credentials(config.tls))
        else:
            port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise _taken(address, 'the port is taken or the certificate is broken') from error
    return f'{config.host}:{port}'


def _credentials(tls: TlsConfig) -> grpc.ServerCredentials:
    pair = (Path(tls.key).read_bytes(), Path(tls.certificate).read_bytes())
    authority = Path(tls.client_ca).read_bytes() if tls.client_ca else None
    return grpc.ssl_server_credentials(
        [pair], root_certificates=authority, require_client_auth=authority is not None
    )


def _taken(address: str, why: str) -> StartError:
    return StartError(
        f'cannot listen on {address}: {why}; stop the other server, or choose another address '
        'with --host and --port (port 0: any free one)'
    )

# SPDX-License-Identifier: Apache-2.0
"""A backbone for the time of a run: one that is there already, or a process of our own."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
import tempfile

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tendon.stack import free_port, Stack

START_TIMEOUT_S = 120.0
PROBE_TIMEOUT_S = 0.5


@dataclass(frozen=True)
class Place:
    """Where a backbone runs: the host that robots reach it at, and the way to go there.

    Whoever starts a process inside of ``entered`` starts it at that place.
    """

    host: str = '127.0.0.1'
    entered: Callable[[], AbstractContextManager[None]] = nullcontext


HERE = Place()


@contextmanager
def backbone(
    address: str | None, checkpoint: Path | None = None,
    settings: Mapping[str, object] | None = None,
) -> Iterator[str]:
    """Give the address of a backbone that serves; end it afterwards if it was started here.

    Raises:
      PartDied, PartNotReady: if it does not come up.
    """
    if address is not None:
        yield address
        return
    with tempfile.TemporaryDirectory(prefix='tendon-') as logs, Stack(Path(logs)) as stack:
        yield start_backbone(stack, checkpoint, settings=settings)


def start_backbone(
    stack: Stack, checkpoint: Path | None = None, port: int | None = None,
    settings: Mapping[str, object] | None = None, place: Place = HERE,
) -> str:
    """Start a backbone in a stack and wait until it serves; return its address."""
    port = port or free_port()
    arguments = ['--port', str(port)]
    if place is not HERE:
        # No network reaches the other place but the emulated link, so plain text is safe there.
        arguments += ['--host', place.host, '--insecure']
    if checkpoint is not None:
        arguments += ['--checkpoint', str(checkpoint)]
    for key, value in (settings or {}).items():
        arguments += ['--set', f'{key}={value}']
    with place.entered():
        stack.start('backbone', 'cloud_backbone.server', *arguments)
    address = f'{place.host}:{port}'
    stack.wait('backbone', lambda: is_serving(address), START_TIMEOUT_S)
    return address


def is_serving(address: str) -> bool:
    """Say whether a backbone is warm and takes turns."""
    with grpc.insecure_channel(address, options=[('grpc.enable_http_proxy', 0)]) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=PROBE_TIMEOUT_S)
        except grpc.RpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

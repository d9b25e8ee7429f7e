# SPDX-License-Identifier: Apache-2.0
"""The real server with a scripted model, and a robot that has said hello."""

from collections.abc import Iterator

from cloud_backbone.config import LimitsConfig
import pytest

from tests.fakes.backbone_server import BackboneServer
from tests.fakes.raw_client import RawClient
from tests.fakes.scripted_backbone import ScriptedBackbone

LIMITS = LimitsConfig(max_pending_turns=3, hello_timeout_s=0.5, max_sessions=16)


@pytest.fixture(scope='module')
def backbone() -> ScriptedBackbone:
    """Return the model behind the server."""
    return ScriptedBackbone()


@pytest.fixture(scope='module')
def server(backbone: ScriptedBackbone) -> Iterator[BackboneServer]:
    """Serve it."""
    with BackboneServer(backbone, LIMITS) as server:
        yield server


@pytest.fixture
def client(server: BackboneServer) -> Iterator[RawClient]:
    """Return a client that has said hello."""
    with RawClient(server.address) as client:
        client.hello()
        yield client

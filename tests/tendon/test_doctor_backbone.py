# SPDX-License-Identifier: Apache-2.0
"""Promises of the doctor's checks on the backbone, against real servers."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
import socket

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from protos import planner_pb2, planner_pb2_grpc
from protos.protocol import PROTOCOL_VERSION
import pytest
from tendon import doctor_backbone
from tendon.doctor_backbone import backbone, clock_offset
from tendon.doctor_finding import State

from tests.fakes.scripted_planner import ScriptedPlanner


class Told(ScriptedPlanner):
    """A backbone that says what the test wants of itself."""

    def __init__(self, **stats: int | str) -> None:
        super().__init__()
        self._told = stats

    def GetStats(  # noqa: N802
        self, request: planner_pb2.GetStatsRequest, context: grpc.ServicerContext
    ) -> planner_pb2.GetStatsResponse:
        """Say it."""
        return planner_pb2.GetStatsResponse(**self._told)


@contextmanager
def served(planner: ScriptedPlanner | None, is_warm: bool = True) -> Iterator[str]:
    """Serve health, and a backbone if there is one; give the address."""
    server = grpc.server(ThreadPoolExecutor(4))
    if planner is not None:
        planner_pb2_grpc.add_PlannerServicer_to_server(planner, server)
        servicer = health.HealthServicer()
        status = 'SERVING' if is_warm else 'NOT_SERVING'
        servicer.set('', health_pb2.HealthCheckResponse.ServingStatus.Value(status))
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port('127.0.0.1:0')
    server.start()
    try:
        yield f'127.0.0.1:{port}'
    finally:
        server.stop(None).wait()


def told(**more: int | str) -> Told:
    """Return a backbone in good order, but for what the test says."""
    return Told(**{
        'model_fingerprint': 'abc', 'protocol_version': PROTOCOL_VERSION, 'free_session_count': 3,
        **more,
    })


def test_a_warm_backbone_of_this_version_is_right() -> None:
    """With its model and how many robots it has room for."""
    with served(told()) as address:
        found = backbone(address, True)
    assert found.state is State.OK
    assert 'model abc' in found.detail and '3 more sessions' in found.detail


@pytest.mark.parametrize(('stats', 'state', 'text'), [
    ({'protocol_version': 7}, State.FAILURE, f'speaks protocol 7, this robot {PROTOCOL_VERSION}'),
    ({'protocol_version': 0}, State.FAILURE, 'of an older version'),
    ({'free_session_count': 0}, State.WARNING, 'no room for one more session'),
])
def test_a_backbone_of_no_use_is_told_with_a_remedy(
    stats: dict[str, int], state: State, text: str
) -> None:
    """Another version, or no room: each has its own words."""
    with served(told(**stats)) as address:
        found = backbone(address, True)
    assert found.state is state
    assert text in found.detail and found.remedy


def test_a_backbone_that_loads_is_waited_for() -> None:
    """Not serving yet is no fault of the network."""
    with served(told(), is_warm=False) as address:
        found = backbone(address, True)
    assert found.state is State.WARNING
    assert found.remedy.startswith('wait')


def test_another_server_is_no_backbone() -> None:
    """A gRPC server without our service is named as such."""
    with served(None) as address:
        found = backbone(address, True)
    assert found.state is State.FAILURE
    assert 'no Tendon backbone' in found.detail


def test_nobody_there_is_a_fault_only_where_somebody_was_expected() -> None:
    """A robot's computer need not run a backbone of its own."""
    assert backbone('127.0.0.1:1', True).state is State.FAILURE
    found = backbone('127.0.0.1:1', False)
    assert found.state is State.SKIPPED
    assert '--backbone' in found.remedy


def test_a_host_that_swallows_everything_does_not_hang_the_doctor(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port that accepts and never answers is given up after a while."""
    monkeypatch.setattr(doctor_backbone, 'TIMEOUT_S', 0.3)
    with socket.socket() as silent:
        silent.bind(('127.0.0.1', 0))
        silent.listen()
        found = backbone(f'127.0.0.1:{silent.getsockname()[1]}', True)
    assert found.state is State.FAILURE
    assert 'does not answer within 0.3 s' in found.detail


def test_the_offset_of_the_clocks_is_a_fact_with_a_bound() -> None:
    """And says that nothing depends on it."""
    with served(told()) as address:
        found = clock_offset(address)
    assert found.state is State.OK
    assert 'give or take' in found.detail and 'nothing depends on it' in found.detail


def test_without_a_backbone_there_is_no_offset() -> None:
    """Skipped, with what to do to have one."""
    found = clock_offset('127.0.0.1:1')
    assert found.state is State.SKIPPED
    assert found.remedy

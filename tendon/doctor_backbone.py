# SPDX-License-Identifier: Apache-2.0
"""Checks of ``tendon doctor`` on the backbone: there, warm, of this version; and its clock.

Asks over the network as a robot would; opens no session.
"""

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from onboard_decoder.link_reason import explain
from protos import planner_pb2, planner_pb2_grpc
from protos.protocol import CLIENT_OPTIONS, PROTOCOL_VERSION
from tendon.clock_offset import estimate, read_clock
from tendon.doctor_finding import Finding, State

TIMEOUT_S = 3.0
CLOCK_QUESTIONS = 20
START = 'tendon serve on that machine; its firewall must let the port through'
ELSEWHERE = 'tendon doctor --backbone HOST:PORT'


def backbone(address: str, is_wanted: bool) -> Finding:
    """A backbone is reachable, warm, and speaks this protocol.

    Args:
      address: host:port.
      is_wanted: somebody asked for this one; if not, none is no fault.
    """
    with _channel(address) as channel:
        try:
            status = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S
            ).status
            stats = planner_pb2_grpc.PlannerStub(channel).GetStats(
                planner_pb2.GetStatsRequest(), timeout=TIMEOUT_S
            ) if status == health_pb2.HealthCheckResponse.SERVING else None
        except grpc.RpcError as error:
            return _not_there(error, address, is_wanted)
    if stats is None:
        return Finding(
            'backbone', State.WARNING, f'{address} is there but does not serve yet',
            'wait: it loads its model; its log says how far it is',
        )
    if stats.protocol_version != PROTOCOL_VERSION:
        return Finding(
            'backbone', State.FAILURE,
            f'{address} speaks protocol {stats.protocol_version or "of an older version"}, this '
            f'robot {PROTOCOL_VERSION}',
            'install the same version of Tendon on both machines',
        )
    room = f'room for {stats.free_session_count} more sessions'
    if stats.free_session_count < 1:
        return Finding(
            'backbone', State.WARNING, f'{address} serves, but has no room for one more session',
            'raise cache.pool_bytes or limits.max_sessions there, see docs/deployment.md',
        )
    return Finding(
        'backbone', State.OK,
        f'{address} serves model {stats.model_fingerprint[:12]}, protocol {PROTOCOL_VERSION}, '
        f'{room}',
    )


def clock_offset(address: str) -> Finding:
    """By how much the backbone's steady clock is ahead; a fact, never a fault."""
    with _channel(address) as channel:
        stub = planner_pb2_grpc.PlannerStub(channel)
        try:
            found = estimate([read_clock(stub) for _ in range(CLOCK_QUESTIONS)])
        except grpc.RpcError:
            return Finding(
                'clocks', State.SKIPPED, f'no backbone at {address} to compare with', ELSEWHERE
            )
    return Finding(
        'clocks', State.OK,
        f"the backbone's is {found.offset_ns / 1e9:+.6f} s from this one's, give or take "
        f'{found.bound_ns / 1e6:.2f} ms; nothing depends on it',
    )


def _channel(address: str) -> grpc.Channel:
    return grpc.insecure_channel(address, options=list(CLIENT_OPTIONS))


def _not_there(error: grpc.RpcError, address: str, is_wanted: bool) -> Finding:
    code = error.code() if isinstance(error, grpc.Call) else None
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        reason = f'{address} does not answer within {TIMEOUT_S:g} s'
    else:
        reason = explain(error, address).text
    if is_wanted:
        return Finding('backbone', State.FAILURE, reason, START)
    return Finding('backbone', State.SKIPPED, f'none at {address}', ELSEWHERE)

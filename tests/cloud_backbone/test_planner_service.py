# SPDX-License-Identifier: Apache-2.0
"""Promises of the service, asked over a real connection with a scripted model behind it."""

import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from protos import latency, planner_pb2
import pytest

from tests.contracts.planner_contract import reason_of
from tests.fakes.backbone_server import BackboneServer
from tests.fakes.raw_client import RawClient
from tests.fakes.scripted_backbone import ScriptedBackbone


def test_stages_sum_to_the_time_in_the_backbone(
    client: RawClient, backbone: ScriptedBackbone
) -> None:
    """Queue, vision, prefill and decode add up to what a robot next door measures."""
    backbone.delay_s = 0.05
    client.ask()
    rounds = []
    for _ in range(5):
        start_ns = time.monotonic_ns()
        trace = latency.from_trace(client.ask().backbone_trace)
        rounds.append((time.monotonic_ns() - start_ns - sum(trace.values()), trace))
    backbone.delay_s = 0.0
    rest_ns, trace = min(rounds, key=lambda one: one[0])
    assert list(trace) == ['queue', 'vision', 'prefill', 'decode']
    assert trace['vision'] >= 50_000_000
    assert 0 <= rest_ns < 25_000_000


def test_a_ping_never_waits_for_the_model(
    client: RawClient, backbone: ScriptedBackbone
) -> None:
    """While a turn is worked on pongs come, one for each ping; the answer comes after them."""
    backbone.delay_s = 1.0
    client.send_turn(client.turn(turn_id='slow'))
    pongs = []
    for number in range(5):
        client.send(planner_pb2.SessionRequest(ping=planner_pb2.Ping(number=number)))
        pongs.append(client.receive().pong.number)
        time.sleep(0.02)
    answer = client.receive().turn_answer
    backbone.delay_s = 0.0
    assert pongs == list(range(5))
    assert answer.turn_id == 'slow'


def test_an_answer_says_when_its_turn_arrived(client: RawClient) -> None:
    """On the clock that ClockSync reads: after it was sent, before it was answered."""
    before_ns = time.monotonic_ns()  # one machine: the clock of both
    trace = client.ask().backbone_trace
    took_ns = sum(latency.from_trace(trace).values())
    assert before_ns < trace.arrived_monotonic_ns <= time.monotonic_ns() - took_ns


def test_turns_of_many_robots_share_a_forward(
    server: BackboneServer, backbone: ScriptedBackbone
) -> None:
    """Turns that come while the model works are answered together, each to its own robot."""
    clients = [RawClient(server.address) for _ in range(5)]
    for client in clients:
        client.hello()
    backbone.batches.clear()
    backbone.delay_s = 0.2
    for number, client in enumerate(clients):
        client.send_turn(client.turn(turn_id=f'of-{number}'))
        time.sleep(0.02)
    answers = [client.receive().turn_answer for client in clients]
    backbone.delay_s = 0.0
    for client in clients:
        client.close()
    assert [answer.turn_id for answer in answers] == [f'of-{n}' for n in range(5)]
    assert {answer.WhichOneof('result') for answer in answers} == {'plan'}
    assert backbone.batches == [1, 4]


def test_withdrawn_turn_gets_no_answer(client: RawClient, backbone: ScriptedBackbone) -> None:
    """After a cancel the answer does not come, and neither is the turn worked on if it waited."""
    backbone.delay_s = 0.2
    backbone.batches.clear()
    for name in ('first', 'second'):
        client.send_turn(client.turn(turn_id=name))
    cancel = planner_pb2.CancelTurn(turn_id='second')
    client.send(planner_pb2.SessionRequest(cancel_turn=cancel))
    assert client.receive().turn_answer.turn_id == 'first'
    backbone.delay_s = 0.0
    assert client.ask(client.turn(turn_id='third')).turn_id == 'third'
    assert backbone.batches == [1, 1]


def test_turn_that_waited_too_long_is_an_error(
    client: RawClient, backbone: ScriptedBackbone
) -> None:
    """A turn whose deadline passes in the queue costs no work and says what happened."""
    backbone.delay_s = 0.2
    client.send_turn(client.turn(turn_id='first'))
    client.send_turn(client.turn(turn_id='late', deadline_ms=20))
    answers = [client.receive().turn_answer for _ in range(2)]
    backbone.delay_s = 0.0
    late = next(answer for answer in answers if answer.turn_id == 'late')
    assert late.error.reason == planner_pb2.ERROR_REASON_DEADLINE_PASSED
    assert late.error.remedy == planner_pb2.REMEDY_RETRY_CALL


def test_too_many_turns_of_one_robot_are_refused(
    client: RawClient, backbone: ScriptedBackbone
) -> None:
    """One robot cannot fill the queue of all."""
    backbone.delay_s = 0.2
    for number in range(4):
        client.send_turn(client.turn(turn_id=str(number)))
    first = client.receive().turn_answer
    backbone.delay_s = 0.0
    assert (first.turn_id, first.error.reason) == ('3', planner_pb2.ERROR_REASON_OVERLOADED)
    assert 'allowed are 3' in first.error.message
    assert [client.receive().turn_answer.turn_id for _ in range(3)] == ['0', '1', '2']


def test_turn_under_way_survives_its_stream(
    server: BackboneServer, backbone: ScriptedBackbone
) -> None:
    """A robot that lost its connection asks again by id and gets the one answer."""
    backbone.delay_s = 0.3
    backbone.batches.clear()
    with RawClient(server.address) as client:
        session_id = client.hello().session_id
        client.send_turn(client.turn(turn_id='mine'))
        time.sleep(0.1)
    with RawClient(server.address) as client:
        assert client.hello(session_id=session_id).resumed
        answer = client.ask(client.turn(turn_id='mine'))
    backbone.delay_s = 0.0
    assert answer.epoch == client.welcome.epoch
    assert answer.WhichOneof('result') == 'plan'
    assert backbone.batches == [1]


def test_resuming_robot_fences_its_old_stream(client: RawClient, server: BackboneServer) -> None:
    """After a resume, turns on the old stream are told to reopen."""
    with RawClient(server.address) as other:
        other.hello(session_id=client.welcome.session_id)
        error = client.ask().error
        assert error.reason == planner_pb2.ERROR_REASON_STALE_EPOCH
        assert other.ask().WhichOneof('result') == 'plan'


def test_fault_of_the_model_is_a_turn_error(client: RawClient, backbone: ScriptedBackbone) -> None:
    """An exception inside costs one turn, tells no secrets, and the next turn works."""
    backbone.fail = RuntimeError('secret')
    error = client.ask().error
    assert error.reason == planner_pb2.ERROR_REASON_INTERNAL
    assert error.remedy == planner_pb2.REMEDY_RETRY_CALL
    assert 'secret' not in error.message
    assert client.ask().WhichOneof('result') == 'plan'


def test_second_hello_ends_the_call(client: RawClient) -> None:
    """A stream has one hello."""
    with pytest.raises(grpc.RpcError, match='a second Hello'):
        client.hello()


def test_empty_message_ends_the_call(client: RawClient) -> None:
    """A message without content is refused with what was expected."""
    client.send(planner_pb2.SessionRequest())
    with pytest.raises(grpc.RpcError, match='expected hello, turn, cancel_turn or ping'):
        client.receive()


def test_silent_stream_is_ended(server: BackboneServer) -> None:
    """A client that connects and says nothing holds no place."""
    with RawClient(server.address) as client:
        responses = client.stub.Session(iter(client._requests.get, None), timeout=10)
        with pytest.raises(grpc.RpcError, match=r'no hello within 0\.5 s'):
            next(responses)


def test_half_closed_stream_still_gets_its_answer(client: RawClient) -> None:
    """What was asked before the robot stopped sending is answered."""
    client.send_turn(client.turn(turn_id='last'))
    client._requests.put(None)
    assert client.receive().turn_answer.turn_id == 'last'
    with pytest.raises(StopIteration):
        client.receive()


def test_closed_session_ends_its_stream(client: RawClient) -> None:
    """After CloseSession the next message on the stream finds the session gone."""
    request = planner_pb2.CloseSessionRequest(session_id=client.welcome.session_id)
    assert client.stub.CloseSession(request, timeout=10).was_open
    with pytest.raises(grpc.RpcError, match='was closed') as caught:
        client.ask()
    assert reason_of(caught.value) == 'ERROR_REASON_SESSION_LOST'


def test_too_large_message_is_refused(client: RawClient) -> None:
    """More than the limit never reaches the service, and the server lives on."""
    with pytest.raises(grpc.RpcError) as caught:
        client.ask(client.turn('a' * 1_200_000))
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_health_answers_while_the_model_works(
    client: RawClient, backbone: ScriptedBackbone
) -> None:
    """The model never blocks the loop."""
    backbone.delay_s = 1.0
    client.send_turn(client.turn())
    time.sleep(0.1)
    stub = health_pb2_grpc.HealthStub(client.channel)
    start_s = time.monotonic()
    for name in ('', 'tendon.v1.Planner'):
        answer = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=10)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    took_s = time.monotonic() - start_s
    backbone.delay_s = 0.0
    client.receive()
    assert took_s < 0.8


def test_reflection_names_the_service(client: RawClient) -> None:
    """Tools find the service without its .proto file."""
    stub = reflection_pb2_grpc.ServerReflectionStub(client.channel)
    request = reflection_pb2.ServerReflectionRequest(list_services='')
    answer = next(stub.ServerReflectionInfo(iter([request]), timeout=10))
    names = {service.name for service in answer.list_services_response.service}
    assert {'tendon.v1.Planner', 'grpc.health.v1.Health'} <= names


def test_cache_is_kept_between_turns(client: RawClient) -> None:
    """The second turn of the same instruction reuses it; the counters say so."""
    first, second = client.ask(), client.ask()
    assert first.reused_token_count == 0
    assert second.reused_token_count == len('pick up the red cube')
    assert second.computed_token_count == first.computed_token_count - second.reused_token_count
    stats = client.stub.GetStats(planner_pb2.GetStatsRequest(), timeout=10)
    assert stats.cache_bytes > 0
    assert stats.open_session_count > 0
    assert stats.free_session_count > 0


def test_welcome_says_what_the_cache_is_like(server: BackboneServer) -> None:
    """Policy and budget of the hello are in force; an empty hello gets the backbone's own."""
    with RawClient(server.address) as plain, RawClient(server.address) as small:
        welcome = plain.hello()
        assert (welcome.cache_policy, welcome.cache_budget_bytes) == ('full', 0)
        welcome = small.hello(cache_policy='cake+int8', cache_budget_bytes=9000)
        assert (welcome.cache_policy, welcome.cache_budget_bytes) == ('cake+int8', 9000)
        assert small.ask().WhichOneof('result') == 'plan'


def test_many_short_sessions_leave_nothing_behind(server: BackboneServer) -> None:
    """More sessions than there is room for, one after the other, all get in."""
    for _ in range(40):
        with RawClient(server.address) as client:
            client.hello()
            assert client.ask().WhichOneof('result') == 'plan'
    assert len(server.planner.sessions) <= 16

# SPDX-License-Identifier: Apache-2.0
"""What a robot may rely on with any planner server. Subclasses provide the fixture ``address``."""

import time

import grpc
from protos import latency, plan_pb2, planner_pb2
from protos.protocol import PROTOCOL_VERSION, REASON_KEY
import pytest

from tests.fakes.raw_client import RawClient
from tests.fakes.task_words import memory


def reason_of(error: grpc.RpcError) -> str:
    """Return the machine-readable reason of a failed call."""
    metadata = error.trailing_metadata() or ()  # type: ignore[attr-defined]
    return dict(metadata).get(REASON_KEY, '')


class PlannerContract:
    """Promises of every planner."""

    def test_first_answer_is_a_welcome(self, address: str) -> None:
        """A hello is answered with a session, an epoch, a model and the image size wanted."""
        with RawClient(address) as client:
            welcome = client.hello()
        assert welcome.session_id
        assert welcome.epoch > 0
        assert welcome.model_fingerprint
        assert welcome.image_width_px > 0
        assert welcome.image_height_px > 0
        assert not welcome.resumed

    def test_turn_is_answered_with_a_plan(self, address: str) -> None:
        """An answer names its turn and epoch, and its plan rests on the turn's observation."""
        with RawClient(address) as client:
            client.hello()
            answer = client.ask(client.turn(turn_id='mine'))
        assert (answer.turn_id, answer.epoch) == ('mine', client.welcome.epoch)
        assert answer.WhichOneof('result') == 'plan'
        plan = answer.plan
        assert plan.outcome != plan_pb2.PLAN_OUTCOME_UNSPECIFIED
        assert bool(plan.steps) == (plan.outcome == plan_pb2.PLAN_OUTCOME_STEPS)
        assert len(plan.latent) in (0, client.welcome.latent_size)
        assert plan.certificate.freshest_observation_epoch == 1
        assert latency.from_trace(answer.backbone_trace)

    def test_ping_comes_back_with_its_number(self, address: str) -> None:
        """Where the welcome promises it; each ping gets one pong, in order."""
        with RawClient(address) as client:
            assert client.hello().answers_pings
            for number in (7, -1, 7):
                client.send(planner_pb2.SessionRequest(ping=planner_pb2.Ping(number=number)))
            assert [client.receive().pong.number for _ in range(3)] == [7, -1, 7]

    def test_repeated_turn_id_returns_the_stored_answer(self, address: str) -> None:
        """A turn that is sent twice is computed once: the same answer comes again."""
        with RawClient(address) as client:
            client.hello()
            turn = client.turn()
            answers = [client.ask(turn) for _ in range(2)]
        for answer in answers:  # the one thing that is of the message, not of the answer
            answer.backbone_trace.ClearField('arrived_monotonic_ns')
        assert answers[0] == answers[1]

    def test_resumed_session_keeps_answers_under_a_new_epoch(self, address: str) -> None:
        """A robot that reconnects gets its session back, with a larger epoch."""
        with RawClient(address) as client:
            before = client.hello()
        with RawClient(address) as client:
            after = client.hello(session_id=before.session_id)
            assert client.ask().WhichOneof('result') == 'plan'
        assert after.resumed
        assert after.session_id == before.session_id
        assert after.epoch > before.epoch

    def test_lost_session_is_a_normal_answer(self, address: str) -> None:
        """A session that is not there is replaced by a new one, and the welcome says so."""
        with RawClient(address) as client:
            welcome = client.hello(session_id='not-there')
        assert not welcome.resumed
        assert welcome.session_id != 'not-there'

    def test_stale_epoch_is_an_error_that_says_reopen(self, address: str) -> None:
        """A turn of an older epoch is refused, and the stream lives on."""
        with RawClient(address) as client:
            client.hello()
            answer = client.ask(client.turn(epoch=client.welcome.epoch - 1))
            assert answer.error.reason == planner_pb2.ERROR_REASON_STALE_EPOCH
            assert answer.error.remedy == planner_pb2.REMEDY_REOPEN_SESSION
            assert client.ask().WhichOneof('result') == 'plan'

    def test_turn_before_hello_ends_the_call(self, address: str) -> None:
        """The first message must be a hello; anything else is refused with the reason."""
        with RawClient(address) as client:
            client.send_turn(client.turn(epoch=1))
            with pytest.raises(grpc.RpcError) as caught:
                client.receive()
        assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        assert reason_of(caught.value) == 'ERROR_REASON_PROTOCOL_ORDER'

    def test_other_protocol_version_names_both(self, address: str) -> None:
        """A robot of another protocol version is told its own and the backbone's."""
        with RawClient(address) as client, pytest.raises(grpc.RpcError) as caught:
            client.hello(protocol_version=77)
        assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        assert reason_of(caught.value) == 'ERROR_REASON_PROTOCOL_MISMATCH'
        assert '77' in caught.value.details()
        assert str(PROTOCOL_VERSION) in caught.value.details()

    def test_cancel_of_unknown_turn_is_ignored(self, address: str) -> None:
        """Withdrawing a turn that is not there changes nothing."""
        with RawClient(address) as client:
            client.hello()
            cancel = planner_pb2.CancelTurn(turn_id='never-sent')
            client.send(planner_pb2.SessionRequest(cancel_turn=cancel))
            assert client.ask().WhichOneof('result') == 'plan'

    def test_close_is_idempotent(self, address: str) -> None:
        """Closing a session works once and is harmless afterwards."""
        with RawClient(address) as client:
            session_id = client.hello().session_id
            request = planner_pb2.CloseSessionRequest(session_id=session_id)
            assert client.stub.CloseSession(request, timeout=10).was_open
            assert not client.stub.CloseSession(request, timeout=10).was_open

    def test_clock_is_monotonic(self, address: str) -> None:
        """The backbone's clock never goes back, and needs no session."""
        with RawClient(address) as client:
            request = planner_pb2.ClockSyncRequest()
            first = client.stub.ClockSync(request, timeout=10, wait_for_ready=True).monotonic_ns
            time.sleep(0.002)
            assert client.stub.ClockSync(request, timeout=10).monotonic_ns > first

    def test_stats_count_plans(self, address: str) -> None:
        """The counters grow with the answers and name the model of the welcome."""
        with RawClient(address) as client:
            fingerprint = client.hello().model_fingerprint
            before = client.stub.GetStats(planner_pb2.GetStatsRequest(), timeout=10)
            client.ask()
            after = client.stub.GetStats(planner_pb2.GetStatsRequest(), timeout=10)
        assert after.plan_count == before.plan_count + 1
        assert after.model_fingerprint == fingerprint

    def test_a_history_is_sent_once(self, address: str) -> None:
        """What was confirmed need not be sent again; what is missing is asked for by place."""
        with RawClient(address) as client:
            client.hello()
            for first, end, known in ((0, 2, 2), (2, 3, 3), (1, 3, 3)):
                answer = client.ask(client.turn(memory=memory(first, end)))
                assert answer.WhichOneof('result') == 'plan'
                assert answer.known_entry_count == known
            gap = client.ask(client.turn(memory=memory(5, 6)))
            assert gap.error.reason == planner_pb2.ERROR_REASON_HISTORY_GAP
            assert gap.error.expected_entry == 3
            other = client.ask(client.turn(memory=memory(0, 1, trial=2)))
            assert other.known_entry_count == 1

    def test_a_plain_turn_knows_no_history(self, address: str) -> None:
        """A turn without memory is answered as a single question, whatever came before."""
        with RawClient(address) as client:
            client.hello()
            client.ask(client.turn(memory=memory(0, 2)))
            answer = client.ask()
            assert answer.known_entry_count == 0
            assert not answer.plan.HasField('call')

# SPDX-License-Identifier: Apache-2.0
"""What a backbone may rely on with any robot. Subclasses provide the fixture ``connect``."""

from collections.abc import Callable, Iterator
from typing import Protocol

from cloud_backbone import wire
from cloud_backbone.messages import Hello, Turn
from cloud_backbone.turn_checks import check_hello, check_turn
from protos import planner_pb2
import pytest

from tests.fakes.scripted_planner import plan_of, ScriptedPlanner, step

BUSY = planner_pb2.TurnError(
    reason=planner_pb2.ERROR_REASON_OVERLOADED,
    remedy=planner_pb2.REMEDY_RETRY_CALL,
    message='later',
)


class AsksTurns(Protocol):
    """A client under test."""

    def ask(self, instruction: str, jpeg: bytes) -> str:
        """Ask one turn, reconnecting if needed; return 'plan' or 'error'."""

    def close(self) -> None:
        """End the session."""


Connect = Callable[[str], AsksTurns]


class ClientContract:
    """Promises of every client."""

    @pytest.fixture
    def planner(self) -> Iterator[ScriptedPlanner]:
        """Serve a scripted planner."""
        with ScriptedPlanner([plan_of(step('reach', (0.4, 0.0, 0.2)))]) as planner:
            yield planner

    @pytest.fixture
    def client(self, planner: ScriptedPlanner, connect: Connect) -> Iterator[AsksTurns]:
        """Connect to it."""
        client = connect(planner.address)
        yield client
        client.close()

    def test_hello_and_turn_pass_the_backbones_checks(
        self, planner: ScriptedPlanner, client: AsksTurns, jpeg: bytes
    ) -> None:
        """What a robot says of itself and asks is what a real backbone takes."""
        assert client.ask('pick it', jpeg) == 'plan'
        hello = wire.read_request(planner_pb2.SessionRequest(hello=planner.hellos[0]))
        turn = wire.read_request(planner_pb2.SessionRequest(turn=planner.turns[0]))
        assert isinstance(hello, Hello)
        assert isinstance(turn, Turn)
        check_hello(hello)
        check_turn(turn, hello.embodiment, (128, 128))
        assert turn.instruction == 'pick it'

    def test_turns_have_ids_of_their_own_and_the_sessions_epoch(
        self, planner: ScriptedPlanner, client: AsksTurns, jpeg: bytes
    ) -> None:
        """Two questions never share an id, and both name the epoch of the welcome."""
        assert [client.ask('pick it', jpeg) for _ in range(2)] == ['plan', 'plan']
        first, second = planner.turns
        assert first.turn_id != second.turn_id
        assert first.epoch == second.epoch == 1

    def test_turn_error_leaves_the_stream_alive(self, connect: Connect, jpeg: bytes) -> None:
        """After a refused turn the next one goes to the same session."""
        with ScriptedPlanner([BUSY, plan_of()]) as planner:
            client = connect(planner.address)
            assert [client.ask('pick it', jpeg) for _ in range(2)] == ['error', 'plan']
            client.close()
        assert len(planner.hellos) == 1

    def test_dropped_stream_is_resumed(
        self, planner: ScriptedPlanner, client: AsksTurns, jpeg: bytes
    ) -> None:
        """A robot that lost its stream asks for its session by id and uses the new epoch."""
        assert client.ask('pick it', jpeg) == 'plan'
        planner.stop()
        planner.start()
        assert client.ask('pick it', jpeg) == 'plan'
        assert planner.hellos[-1].session_id
        assert planner.turns[-1].epoch > planner.turns[0].epoch

    def test_lost_session_is_replaced(
        self, planner: ScriptedPlanner, client: AsksTurns, jpeg: bytes
    ) -> None:
        """A backbone that forgot everything is asked in the new session that it offers."""
        assert client.ask('pick it', jpeg) == 'plan'
        planner.kill()
        planner.start()
        assert client.ask('pick it', jpeg) == 'plan'

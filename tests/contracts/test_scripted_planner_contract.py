# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import pytest

from tests.contracts.planner_contract import PlannerContract
from tests.fakes.raw_client import RawClient
from tests.fakes.scripted_planner import plan_of, ScriptedPlanner, step


class TestScriptedPlanner(PlannerContract):
    @pytest.fixture
    def address(self) -> Iterator[str]:
        """Serve a scripted planner."""
        with ScriptedPlanner([plan_of(step('reach', (0.4, 0.0, 0.2)))]) as planner:
            yield planner.address


def test_killed_planner_comes_back_on_its_port_without_sessions() -> None:
    """A killed planner forgets its sessions; started again it answers on the same port."""
    planner = ScriptedPlanner().start()
    with RawClient(planner.address) as client:
        session_id = client.hello().session_id
    port = planner.port
    planner.kill()
    planner.start()
    assert planner.port == port
    with RawClient(planner.address) as client:
        assert not client.hello(session_id=session_id).resumed
    planner.stop()


def test_frozen_planner_answers_after_the_thaw() -> None:
    """While it is frozen nothing comes; afterwards the held answer does."""
    with ScriptedPlanner() as planner, RawClient(planner.address) as client:
        client.hello()
        planner.freeze()
        client.send_turn(client.turn())
        assert not planner.turns
        planner.thaw()
        assert client.receive().turn_answer.WhichOneof('result') == 'plan'
        assert len(planner.turns) == 1

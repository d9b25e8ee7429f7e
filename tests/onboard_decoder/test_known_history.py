# SPDX-License-Identifier: Apache-2.0
"""Promises of the robot's stream about memories: what the backbone lacks is sent, and no more."""

from collections.abc import Iterator
from dataclasses import replace
import time

from hypothesis import given
from hypothesis import strategies as st
from onboard_decoder.known_history import KnownHistory
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_client import LinkSettings, PlannerClient
from onboard_decoder.planner_port import Link, TurnAnswer, TurnFailure, TurnRequest
from onboard_decoder.task_memory import (
    HistoryEntry,
    Purpose,
    StepResult,
    TaskMemory,
    Tool,
    ToolCall,
)
import pytest

from tests.fakes.scripted_planner import ScriptedPlanner

QUICK = LinkSettings(hello_timeout_s=1.0, lost_after_s=0.3, refused_backoff_s=0.2)
ENTRIES = tuple(
    HistoryEntry(step, ToolCall(Tool.GRASP, 'red cube'), StepResult.MISSED)
    for step in range(1, 9)
)


def turn(entries: int, instruction: str = 'pick it', **fields: object) -> TurnRequest:
    """Return a question after so many entries."""
    memory = replace(TaskMemory(entries=ENTRIES[:entries]), **fields)  # type: ignore[arg-type]
    turn_id = f'turn-{time.monotonic_ns()}'
    return TurnRequest(turn_id, instruction, {'front': b'jpeg'}, (), 1, 10.0, memory)


def wait_for_session(client: PlannerClient, sessions: int) -> None:
    """Wait until so many sessions have been opened."""
    deadline_s = time.monotonic() + 20.0
    while client.session_count < sessions or client.state().link is not Link.READY:
        assert time.monotonic() < deadline_s, client.state()
        time.sleep(0.002)


def ask(client: PlannerClient, request: TurnRequest) -> TurnAnswer:
    """Ask and wait."""
    pending = client.submit(request)
    while (result := pending.poll()) is None:
        time.sleep(0.002)
    assert not isinstance(result, TurnFailure), result
    return result


@pytest.fixture
def planner() -> Iterator[ScriptedPlanner]:
    """A scripted backbone."""
    with ScriptedPlanner() as planner:
        yield planner


@pytest.fixture
def client(planner: ScriptedPlanner) -> Iterator[PlannerClient]:
    """A client with a session at it."""
    with PlannerClient(planner.address, 'r', load_manifest('tendon_arm'), QUICK) as client:
        wait_for_session(client, 1)
        yield client


def test_only_new_entries_are_sent(planner: ScriptedPlanner, client: PlannerClient) -> None:
    """Each turn carries what no answer has confirmed yet."""
    for count in (0, 1, 2, 5, 5):
        assert ask(client, turn(count)).known_entries == count
    assert planner.histories.received == [0, 1, 1, 3, 0]


def test_a_new_session_gets_all(planner: ScriptedPlanner, client: PlannerClient) -> None:
    """After the backbone lost everything, the next turn carries the whole history."""
    ask(client, turn(4))
    planner.kill()
    planner.start()
    wait_for_session(client, 2)
    assert ask(client, turn(5)).known_entries == 5
    assert planner.histories.received == [4, 5]


def test_a_gap_is_filled(planner: ScriptedPlanner, client: PlannerClient) -> None:
    """A backbone that has less than it said gets the turn again, from what it expects."""
    ask(client, turn(4))
    for history in planner.histories.values():
        del history[1:]
    answer = ask(client, turn(6))
    assert answer.known_entries == 6
    assert planner.histories.received == [4, 2, 5]
    assert len(planner.turns) == 2


def test_another_trial_begins_anew(planner: ScriptedPlanner, client: PlannerClient) -> None:
    """A new trial, and a new task with the same words, get a history of their own."""
    ask(client, turn(3))
    ask(client, turn(2, trial=2))
    ask(client, turn(0))
    ask(client, turn(1))
    assert planner.histories.received == [3, 2, 0, 1]
    assert [len(held) for held in planner.histories.values()] == [3, 2, 1]


def test_a_check_begins_nothing(planner: ScriptedPlanner, client: PlannerClient) -> None:
    """A check that shows no history leaves the one of its task as it is."""
    ask(client, turn(3))
    ask(client, turn(0, purpose=Purpose.CHECK))
    assert ask(client, turn(4)).known_entries == 4
    assert planner.histories.received == [3, 0, 1]
    assert len(planner.histories) == 1


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 3), st.booleans()), max_size=12))
def test_what_is_said_missing_never_exceeds_what_is_known(
    steps: list[tuple[int, int, bool]],
) -> None:
    """Whatever is asked, nothing is left out that the backbone did not confirm for this task."""
    history = KnownHistory()
    held: dict[tuple[int, int], int] = {}
    for entries, trial, is_lost in steps:
        if is_lost:
            held.clear()
            history.forget()
        missing = history.missing(turn(entries, trial=trial))
        key = (missing.task_number, missing.trial)
        assert missing.first_entry <= held.get(key, 0)
        held[key] = max(held.get(key, 0), entries)
        history.learn(missing, held[key])

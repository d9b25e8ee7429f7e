# SPDX-License-Identifier: Apache-2.0
"""What the robot writes of a task is what the backbone reads, and the other way round."""

from typing import Any

from cloud_backbone import task_memory as cloud
from cloud_backbone import wire as cloud_wire
from cloud_backbone.action_plan import Answer, Certificate, Exactness, Plan
from cloud_backbone.action_plan import Outcome as CloudOutcome
from cloud_backbone.errors import FixRequestError, HistoryGapError, reaction, Reason
from cloud_backbone.messages import Turn
from cloud_backbone.wire_task import read_memory, write_memory
from hypothesis import given
from hypothesis import strategies as st
from onboard_decoder import plan as robot_plan
from onboard_decoder import task_memory as robot
from onboard_decoder import wire as robot_wire
from onboard_decoder.planner_port import Remedy, TurnAnswer, TurnFailure, TurnRequest
from protos import plan_pb2, planner_pb2
from protos.protocol import MAX_ENTRIES, MAX_LESSON_CHARS, MAX_LESSONS
import pytest

WORDS = st.text('abc é', max_size=20)
CALLS = st.builds(
    robot.ToolCall, st.sampled_from(robot.Tool), WORDS, WORDS, st.sampled_from(robot.Manner), WORDS
)
ENTRIES = st.lists(
    st.builds(robot.HistoryEntry, st.integers(0, 2**40), CALLS, st.sampled_from(robot.StepResult)),
    max_size=5,
)
MEMORIES = st.builds(
    robot.TaskMemory, st.integers(1, 9), st.lists(WORDS, max_size=3).map(tuple),
    ENTRIES.map(tuple), st.sampled_from(robot.Purpose), st.booleans(),
    st.integers(0, 10**6).map(lambda ms: ms / 1000),
)


def sent(memory: robot.TaskMemory | None, **fields: Any) -> Turn:
    """Return what the backbone reads of a robot's turn."""
    turn = TurnRequest('t', 'go', {}, (), 1, 1.0, memory, revises='t0')
    read = cloud_wire.read_request(robot_wire.to_turn(turn, 3, **fields))
    assert isinstance(read, Turn)
    return read


def named(value: Any) -> Any:
    """Return dataclasses and enums of either side as plain values that can be compared."""
    if isinstance(value, tuple):
        return tuple(named(part) for part in value)
    if hasattr(value, '__dataclass_fields__'):
        return {name: named(getattr(value, name)) for name in value.__dataclass_fields__}
    return getattr(value, 'value', value)


@given(MEMORIES, st.integers(0, 6))
def test_a_memory_arrives_whole(memory: robot.TaskMemory, first: int) -> None:
    """Every field, and the entries from the first that the backbone lacks."""
    first = min(first, len(memory.entries))
    turn = sent(memory, task_number=7, first_entry=first)
    assert turn.memory is not None
    assert turn.revises == 't0'
    expected = named(memory)
    expected['entries'] = expected['entries'][first:]
    expected['expected_resume_ms'] = round(1000 * expected.pop('expected_resume_s'))
    assert named(turn.memory) == {**expected, 'first_entry': first, 'task_number': 7}
    assert read_memory(write_memory(turn.memory)) == turn.memory


def test_a_plain_question_has_no_memory() -> None:
    """A turn without memory says nothing of a task."""
    assert sent(None).memory is None


@given(st.builds(
    cloud.ToolCall, st.sampled_from(cloud.Tool), WORDS, WORDS, st.sampled_from(cloud.Manner), WORDS
), WORDS, st.sampled_from(['BIT', 'NUMERIC', 'APPROXIMATE']))  # fmt: skip
def test_an_answer_arrives_whole(call: cloud.ToolCall, lesson: str, exactness: str) -> None:
    """Call, lesson, certificate and what the backbone knows of the history."""
    plan = Plan(
        CloudOutcome.DONE, call=call, lesson=lesson,
        certificate=Certificate(3, 5, Exactness[exactness], 'ab12'),
    )
    answer = Answer(plan, known_entries=4, reused_tokens=9, computed_tokens=2)
    message = cloud_wire.write_answer('t', 1, answer).turn_answer
    read = robot_wire.from_answer(message, 0, 1)
    assert isinstance(read, TurnAnswer)
    assert named(read.plan.call) == named(call)
    assert read.plan.lesson == lesson
    assert read.plan.certificate == robot_plan.Certificate(
        3, 5, robot_plan.Exactness[exactness], 'ab12'
    )
    assert (read.known_entries, read.reused_token_count) == (4, 9)


def test_an_unknown_tool_is_refused_by_the_robot() -> None:
    """A call of a later version is a failed turn, never a motion."""
    message = planner_pb2.TurnAnswer(turn_id='t')
    message.plan.outcome = plan_pb2.PLAN_OUTCOME_DONE
    message.plan.call.tool = 77
    read = robot_wire.from_answer(message, 0, 1)
    assert isinstance(read, TurnFailure)
    assert 'tool 77' in read.message


def test_a_question_without_words_is_refused_by_the_robot() -> None:
    """A plan that asks a person says what."""
    message = planner_pb2.TurnAnswer(turn_id='t')
    message.plan.outcome = plan_pb2.PLAN_OUTCOME_ASK
    message.plan.call.tool = plan_pb2.TOOL_ASK
    assert isinstance(robot_wire.from_answer(message, 0, 1), TurnFailure)
    message.plan.call.question = 'Where is it?'
    read = robot_wire.from_answer(message, 0, 1)
    assert isinstance(read, TurnAnswer)
    assert read.plan.outcome is robot_plan.Outcome.ASK


def test_a_gap_says_where_to_begin() -> None:
    """The robot reads from which entry on it must send its history."""
    told = reaction(HistoryGapError(5, 2))
    message = cloud_wire.write_error('t', 1, told).turn_answer
    assert robot_wire.from_gap(message) == 2
    failure = robot_wire.from_answer(message, 0, 1)
    assert isinstance(failure, TurnFailure)
    assert (failure.reason, failure.remedy) == ('history_gap', Remedy.FIX)
    assert robot_wire.from_gap(planner_pb2.TurnAnswer()) is None


@pytest.mark.parametrize(('fields', 'words'), [
    ({'trial': 0}, 'trial is 0'),
    ({'lessons': ['x'] * (MAX_LESSONS + 1)}, '4 lessons, allowed are 3'),
    ({'lessons': ['x' * (MAX_LESSON_CHARS + 1)]}, '201 characters'),
    ({'first_entry': -1}, 'entries -1 to -1'),
    ({'first_entry': MAX_ENTRIES + 1}, 'allowed are 0 to 256'),
    ({'purpose': 9}, 'purpose is 9, known are act, check, reflect'),
    ({'expected_resume_ms': -1}, 'expected_resume_ms is -1'),
    ({'entries': [planner_pb2.HistoryEntry(result=1)]}, 'tool is 0'),
    ({'entries': [planner_pb2.HistoryEntry(call=plan_pb2.ToolCall(tool=1))]}, 'result is 0'),
    ({'entries': [planner_pb2.HistoryEntry(
        call=plan_pb2.ToolCall(tool=1, object='x' * 129), result=1)]}, 'object of a tool call'),
])  # fmt: skip
def test_what_is_no_history_is_refused(fields: dict[str, Any], words: str) -> None:
    """The message names the value and the allowed ones."""
    memory = planner_pb2.TaskMemory(**{'trial': 1, **fields})
    request = planner_pb2.SessionRequest(turn=planner_pb2.Turn(turn_id='t', memory=memory))
    with pytest.raises(FixRequestError, match=words) as caught:
        cloud_wire.read_request(request)
    assert caught.value.reason is Reason.BAD_MEMORY

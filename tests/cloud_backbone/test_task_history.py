# SPDX-License-Identifier: Apache-2.0
"""Promises of a session's history: each entry once, in order, and refusals that say why."""

from dataclasses import replace

from cloud_backbone.errors import FixRequestError, HistoryGapError, Reason
from cloud_backbone.task_history import TaskHistory
from cloud_backbone.task_memory import (
    HistoryEntry,
    Purpose,
    StepResult,
    TaskMemory,
    Tool,
    ToolCall,
)
from hypothesis import given
from hypothesis import strategies as st
import pytest

GOAL = 'put the red cube in the blue bin'
ENTRIES = tuple(
    HistoryEntry(step, ToolCall(Tool.GRASP, 'red cube'), StepResult.MISSED)
    for step in range(1, 9)
)


def sent(first: int, end: int, **fields: object) -> TaskMemory:
    """Return a memory that carries entries [first, end)."""
    memory = TaskMemory(first_entry=first, entries=ENTRIES[first:end])
    return replace(memory, **fields)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=12))
def test_entries_are_applied_once_and_in_order(spans: list[tuple[int, int]]) -> None:
    """Whatever spans of a history arrive, what is held is its beginning, and never shrinks."""
    history = TaskHistory()
    for first, end in spans:
        held = len(history.entries)
        memory = sent(first, end)
        if first > held:
            with pytest.raises(HistoryGapError) as caught:
                history.with_memory(GOAL, memory)
            assert caught.value.expected_entry == held
            continue
        history = history.with_memory(GOAL, memory)
        assert history.entries == ENTRIES[: max(held, first + len(memory.entries))]


def test_the_same_id_with_another_content_is_a_conflict() -> None:
    """An entry never changes, whether it is sent at its own place or at another."""
    history = TaskHistory().with_memory(GOAL, sent(0, 3))
    other = replace(ENTRIES[1], result=StepResult.HELD)
    for entry, place in ((other, 1), (other, 3), (ENTRIES[0], 3)):
        with pytest.raises(FixRequestError, match=f'step {entry.step_id} was "grasp') as caught:
            history.with_memory(GOAL, TaskMemory(first_entry=place, entries=(entry,)))
        assert caught.value.reason is Reason.STEP_CONFLICT
    twice = TaskMemory(first_entry=3, entries=(ENTRIES[3], ENTRIES[3]))
    with pytest.raises(FixRequestError, match='step 4'):
        history.with_memory(GOAL, twice)


@pytest.mark.parametrize('change', [
    {'trial': 2}, {'task_number': 1}, {'task_number': 1, 'trial': 3},
])
def test_another_trial_or_task_begins_empty(change: dict[str, int]) -> None:
    """Nothing of the former history is left, and its entries must be sent from 0."""
    history = TaskHistory().with_memory(GOAL, sent(0, 3))
    with pytest.raises(HistoryGapError):
        history.with_memory(GOAL, sent(3, 4, **change))
    fresh = history.with_memory(GOAL, sent(0, 1, **change))
    assert fresh.entries == ENTRIES[:1]


def test_another_goal_begins_empty() -> None:
    """Another instruction is another task, whatever its numbers."""
    history = TaskHistory().with_memory(GOAL, sent(0, 3, trial=2))
    assert history.with_memory('stack it', sent(0, 0)).entries == ()


def test_what_is_over_does_not_come_back() -> None:
    """A late turn of a former trial or task changes nothing."""
    history = TaskHistory().with_memory(GOAL, sent(0, 1, trial=2, task_number=4))
    for change in ({'trial': 1, 'task_number': 4}, {'trial': 9, 'task_number': 3}):
        with pytest.raises(FixRequestError, match='the session is at task 4 trial 2') as caught:
            history.with_memory(GOAL, sent(0, 1, **change))
        assert caught.value.reason is Reason.STEP_CONFLICT


def test_a_check_leaves_lessons_alone() -> None:
    """A check need not repeat the lessons; other turns say which ones hold."""
    lessons = ('The red cube slips.',)
    history = TaskHistory().with_memory(GOAL, sent(0, 1, lessons=lessons))
    check = sent(0, 0, purpose=Purpose.CHECK)
    assert history.with_memory(GOAL, check).lessons == lessons
    assert history.with_memory(GOAL, sent(1, 2)).lessons == ()
    assert history.whole(check).entries == ENTRIES[:1]

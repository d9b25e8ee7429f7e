# SPDX-License-Identifier: Apache-2.0
"""Promises of the digest: the same question has the same one, any other question another."""

from dataclasses import replace

from cloud_backbone.messages import Turn
from cloud_backbone.task_memory import (
    HistoryEntry,
    Purpose,
    StepResult,
    TaskMemory,
    Tool,
    ToolCall,
)
from cloud_backbone.turn_digest import digest_of_turn
import pytest

ENTRIES = tuple(
    HistoryEntry(step, ToolCall(Tool.LOOK), StepResult.SEEN) for step in range(3)
)
MEMORY = TaskMemory(entries=ENTRIES)
TURN = Turn('t', 1, 'go', 5, {'front': b'jpeg'}, (0.0, 1.0), 100, MEMORY)


@pytest.mark.parametrize('change', [
    {'epoch': 2}, {'deadline_ms': 7}, {'turn_id': 'other'},
    {'memory': replace(MEMORY, first_entry=2, entries=ENTRIES[2:])},
    {'memory': replace(MEMORY, expected_resume_ms=9)},
])
def test_the_same_question_asked_again_is_the_same(change: dict[str, object]) -> None:
    """Epoch, deadline and how much of the history is sent along do not count."""
    assert digest_of_turn(replace(TURN, **change)) == digest_of_turn(TURN)


@pytest.mark.parametrize('change', [
    {'instruction': 'stop'}, {'observation_epoch': 6}, {'images': {'front': b'other'}},
    {'images': {'rear': b'jpeg'}}, {'joint_positions': (0.0, 1.1)}, {'revises': 't0'},
    {'memory': None}, {'memory': replace(MEMORY, entries=ENTRIES[:2])},
    {'memory': replace(MEMORY, trial=2)}, {'memory': replace(MEMORY, purpose=Purpose.CHECK)},
    {'memory': replace(MEMORY, hand_holds=True)}, {'memory': replace(MEMORY, lessons=('x',))},
    {'memory': replace(MEMORY, task_number=1)},
])
def test_another_question_is_another(change: dict[str, object]) -> None:
    """Whatever the model would see counts."""
    assert digest_of_turn(replace(TURN, **change)) != digest_of_turn(TURN)

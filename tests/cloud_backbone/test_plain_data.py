# SPDX-License-Identifier: Apache-2.0
"""Promises of plain data: what is written to disk is read back equal, anything else refused."""

import json
from typing import Any

from cloud_backbone.action_plan import (
    Answer,
    Certificate,
    Exactness,
    Outcome,
    Plan,
    Skill,
    Step,
)
from cloud_backbone.embodiment import Camera, Embodiment
from cloud_backbone.plain_data import from_plain, to_plain
from cloud_backbone.task_history import TaskHistory
from cloud_backbone.task_memory import HistoryEntry, Manner, StepResult, Tool, ToolCall
import pytest

CALL = ToolCall(Tool.GRASP, 'red cube', manner=Manner.LOW)
PLAN = Plan(
    Outcome.STEPS, 'thought', steps=(Step(Skill.REACH, (0.1, 0.2, 0.3), point=(0.5, 0.5)),
                                     Step(Skill.HOME)),
    latent=(1.0, 2.0), certificate=Certificate(1, 2, Exactness.BIT, 'ab'), call=CALL,
)
CAMERA = Camera('c', 64, 64, 0.6, (0.0, 0.0, 1.0), (0.0, 1.0, 0.0, 0.0))
VALUES = (
    Answer(PLAN, {'queue': 3}, 4, 5, 6), Answer(Plan(Outcome.DONE)),
    Embodiment('arm', ('a',), (CAMERA,), 'a', (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    TaskHistory('go', 1, 2, ('lesson',), (HistoryEntry(1, CALL, StepResult.HELD),)),
)


@pytest.mark.parametrize('value', VALUES, ids=lambda value: type(value).__name__)
def test_what_is_written_is_read_back(value: Any) -> None:
    """Through JSON text and back nothing changes, types included."""
    text = json.dumps(to_plain(value), allow_nan=False)
    assert from_plain(type(value), json.loads(text)) == value


@pytest.mark.parametrize('plain', [
    None, 3, [], {'plan': None}, {'plan': {'outcome': 'DANCE'}}, {'unknown': 1},
    {'plan': {'outcome': 'DONE'}, 'reused_tokens': '4'},
])
def test_anything_else_is_refused(plain: Any) -> None:
    """A value of another form never becomes data."""
    with pytest.raises(ValueError, match='is no Answer'):
        from_plain(Answer, plain)

# SPDX-License-Identifier: Apache-2.0
"""Memories of tasks as messages of the wire, and a script that acts on them."""

from __future__ import annotations

import re
from typing import Any

from protos import plan_pb2, planner_pb2

GRASP_ACT = ' The red cube is at <064><064>.<grasp>'
PLACE_ACT = '<holding> the red cube, the blue bin at <040><064>.<place>'
LESSON = '<lesson> the red cube<slips>'
SENTENCE = 'The red cube slips: grasp and carry it slowly.'
PLAN = ' The red cube is at <064><064>. Plan: reach A, grasp A, lift, hold.'


def script(prompt: str) -> str:
    """Grasp with an empty hand, place with a full one, learn when the trial has failed."""
    if '<agent>' not in prompt:
        return PLAN
    if '<trial_failed>' in prompt:
        return LESSON
    return PLACE_ACT if prompt.endswith('<hand_full>') else GRASP_ACT


def entry(step_id: int, result: str = 'MISSED', name: str = 'red cube') -> Any:
    """Return a grasp and what came of it."""
    return planner_pb2.HistoryEntry(
        step_id=step_id,
        call=plan_pb2.ToolCall(tool=plan_pb2.TOOL_GRASP, object=name),
        result=planner_pb2.StepResult.Value(f'STEP_RESULT_{result}'),
    )


def memory(first: int, end: int, **fields: Any) -> planner_pb2.TaskMemory:
    """Return a memory that carries entries [first, end) of grasps that missed."""
    entries = [entry(number + 1) for number in range(first, end)]
    return planner_pb2.TaskMemory(
        **{'trial': 1, 'first_entry': first, 'entries': entries, **fields}
    )


def steps_said(prompt: str) -> int:
    """Count the entries of a prompt's history."""
    return len(re.findall('<did>', prompt))

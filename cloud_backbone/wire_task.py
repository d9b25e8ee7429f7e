# SPDX-License-Identifier: Apache-2.0
"""The memory of a task and tool calls, from and to messages of the wire; for ``wire`` only.

Refuses what is no history of a task; whether it fits what is known already is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from cloud_backbone.errors import FixRequestError, Reason
from cloud_backbone.task_memory import (
    HistoryEntry,
    Manner,
    Purpose,
    StepResult,
    TaskMemory,
    Tool,
    ToolCall,
)
from protos import plan_pb2, planner_pb2
from protos.protocol import (
    MAX_ENTRIES,
    MAX_LESSON_CHARS,
    MAX_LESSONS,
    MAX_NAME_CHARS,
    MAX_QUESTION_CHARS,
)

Choice = TypeVar('Choice', bound=Enum)

_TOOLS = {plan_pb2.Tool.Value(f'TOOL_{tool.name}'): tool for tool in Tool}
_MANNERS = {plan_pb2.Manner.Value(f'MANNER_{manner.name}'): manner for manner in Manner} | {
    plan_pb2.MANNER_UNSPECIFIED: Manner.NORMAL
}
_RESULTS = {
    planner_pb2.StepResult.Value(f'STEP_RESULT_{result.name}'): result for result in StepResult
}
_PURPOSES = {
    planner_pb2.Purpose.Value(f'PURPOSE_{purpose.name}'): purpose for purpose in Purpose
} | {planner_pb2.PURPOSE_UNSPECIFIED: Purpose.ACT}


def read_memory(memory: planner_pb2.TaskMemory) -> TaskMemory:
    """Return what a turn says of the task.

    Raises:
        FixRequestError: it is no history of a task, or too much of one.
    """
    _check(1 <= memory.trial, f'trial is {memory.trial}, must be 1 or more')
    _check(
        len(memory.lessons) <= MAX_LESSONS,
        f'{len(memory.lessons)} lessons, allowed are {MAX_LESSONS}',
    )
    for lesson in memory.lessons:
        _check_text('a lesson', lesson, MAX_LESSON_CHARS)
    last = memory.first_entry + len(memory.entries)
    _check(
        0 <= memory.first_entry and last <= MAX_ENTRIES,
        f'entries {memory.first_entry} to {last}, allowed are 0 to {MAX_ENTRIES}',
    )
    _check(
        0 <= memory.expected_resume_ms,
        f'expected_resume_ms is {memory.expected_resume_ms}, must be 0 or more',
    )
    return TaskMemory(
        trial=memory.trial,
        lessons=tuple(memory.lessons),
        first_entry=memory.first_entry,
        entries=tuple(_entry(entry) for entry in memory.entries),
        purpose=_chosen('purpose', _PURPOSES, memory.purpose),
        hand_holds=memory.hand_holds,
        expected_resume_ms=memory.expected_resume_ms,
        task_number=memory.task_number,
    )


def _entry(entry: planner_pb2.HistoryEntry) -> HistoryEntry:
    return HistoryEntry(
        entry.step_id, _call(entry.call), _chosen('result', _RESULTS, entry.result)
    )


def _call(call: plan_pb2.ToolCall) -> ToolCall:
    for name in ('object', 'target'):
        _check_text(f'the {name} of a tool call', getattr(call, name), MAX_NAME_CHARS)
    _check_text('the question of a tool call', call.question, MAX_QUESTION_CHARS)
    return ToolCall(
        tool=_chosen('tool', _TOOLS, call.tool),
        object_name=call.object,
        target_name=call.target,
        manner=_chosen('manner', _MANNERS, call.manner),
        question=call.question,
    )


def write_call(call: ToolCall) -> plan_pb2.ToolCall:
    """Write one use of a tool."""
    return plan_pb2.ToolCall(
        tool=f'TOOL_{call.tool.name}',
        object=call.object_name,
        target=call.target_name,
        manner=f'MANNER_{call.manner.name}',
        question=call.question,
    )


def write_memory(memory: TaskMemory) -> planner_pb2.TaskMemory:
    """Write a memory; reading it gives an equal one."""
    return planner_pb2.TaskMemory(
        trial=memory.trial,
        lessons=memory.lessons,
        first_entry=memory.first_entry,
        entries=[
            planner_pb2.HistoryEntry(
                step_id=entry.step_id,
                call=write_call(entry.call),
                result=f'STEP_RESULT_{entry.result.name}',
            )
            for entry in memory.entries
        ],
        purpose=f'PURPOSE_{memory.purpose.name}',
        hand_holds=memory.hand_holds,
        expected_resume_ms=memory.expected_resume_ms,
        task_number=memory.task_number,
    )


def _chosen(what: str, known: Mapping[int, Choice], value: int) -> Choice:
    _check(
        value in known,
        f'{what} is {value}, known are {", ".join(sorted({c.value for c in known.values()}))}',
    )
    return known[value]


def _check_text(what: str, text: str, most: int) -> None:
    _check(len(text) <= most, f'{what} has {len(text)} characters, allowed are {most}')


def _check(allowed: bool, message: str) -> None:
    if not allowed:
        raise FixRequestError(Reason.BAD_MEMORY, f'memory: {message}')

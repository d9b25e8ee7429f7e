# SPDX-License-Identifier: Apache-2.0
"""What a robot remembers of a task: tool calls, what came of them, lessons, as plain data.

Mirrors the memory of ``planner.proto``; knows neither wire, tokens nor cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Tool(Enum):
    """The closed set of tools."""

    LOOK = 'look'
    GRASP = 'grasp'
    PLACE = 'place'
    STACK = 'stack'
    PUSH = 'push'
    RELEASE = 'release'
    ASK = 'ask'
    DONE = 'done'
    STOP = 'stop'


class Manner(Enum):
    """How a tool is used."""

    NORMAL = 'normal'
    SLOWLY = 'slowly'
    LOW = 'low'


class StepResult(Enum):
    """What came of a tool call, as the robot measured it."""

    HELD = 'held'
    MISSED = 'missed'
    SLIPPED = 'slipped'
    PLACED = 'placed'
    FELL = 'fell'
    PUSHED = 'pushed'
    RELEASED = 'released'
    SEEN = 'seen'
    CLEARED = 'cleared'
    UNANSWERED = 'unanswered'
    FAILED = 'failed'
    STOPPED = 'stopped'
    REFUSED = 'refused'


class Purpose(Enum):
    """What a turn with memory asks for."""

    ACT = 'act'
    """The next tool call."""
    REFLECT = 'reflect'
    """The trial failed: a lesson."""
    CHECK = 'check'
    """Is the goal fulfilled? A question of its own."""


@dataclass(frozen=True)
class ToolCall:
    """One use of one tool; names are as people say them, empty where the tool has none."""

    tool: Tool
    object_name: str = ''
    target_name: str = ''
    manner: Manner = Manner.NORMAL
    question: str = ''


@dataclass(frozen=True)
class HistoryEntry:
    """One tool call and what came of it."""

    step_id: int
    """Unique in the trial."""
    call: ToolCall
    result: StepResult


@dataclass(frozen=True)
class TaskMemory:
    """What a turn says of the task so far; the entries may be only the newest ones."""

    trial: int = 1
    lessons: tuple[str, ...] = ()
    first_entry: int = 0
    """Place of the first of ``entries`` in the history of the trial."""
    entries: tuple[HistoryEntry, ...] = ()
    purpose: Purpose = Purpose.ACT
    hand_holds: bool = False
    expected_resume_ms: int = 0
    """How long no answer will be needed after this one; 0: unknown."""
    task_number: int = 0
    """Tells tasks of one session apart that have the same instruction."""

# SPDX-License-Identifier: Apache-2.0
"""What the agent remembers of one trial, as plain values: tool calls, what came of them, lessons.

Knows nothing of messages, tokens, joints or time.
"""

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

    HELD = 'held'  # the gripper holds the thing, and it was lifted
    MISSED = 'missed'  # the fingers closed on nothing
    SLIPPED = 'slipped'  # was held, is lost
    PLACED = 'placed'  # let go at the target
    FELL = 'fell'  # lost on the way to the target
    PUSHED = 'pushed'  # the push was carried out
    RELEASED = 'released'  # let go where it was
    SEEN = 'seen'  # looked
    CLEARED = 'cleared'  # a person did what was asked
    UNANSWERED = 'unanswered'  # no person answered
    FAILED = 'failed'  # the motion did not come to its end
    STOPPED = 'stopped'  # ended before contact, because the choice changed
    REFUSED = 'refused'  # not allowed or not possible; nothing moved


class Purpose(Enum):
    """What a turn is asked for."""

    ACT = 'act'  # the next tool call
    REFLECT = 'reflect'  # the trial failed: a lesson
    CHECK = 'check'  # is the goal fulfilled? A plain question that sees no thought


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One use of a tool; names are as people say them, empty where the tool has none."""

    tool: Tool
    object_name: str = ''
    target_name: str = ''
    manner: Manner = Manner.NORMAL
    question: str = ''


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One tool call and its result; ``step_id`` counts from 1 within the trial, without gaps."""

    step_id: int
    call: ToolCall
    result: StepResult


@dataclass(frozen=True, slots=True)
class TaskMemory:
    """What a turn rests on besides its image.

    ``trial`` counts from 1; ``lessons`` are at most three sentences; ``entries`` are all of this
    trial, oldest first; ``expected_resume_s`` is in how long the next turn is due, 0 unknown [s].
    """

    trial: int = 1
    lessons: tuple[str, ...] = ()
    entries: tuple[HistoryEntry, ...] = ()
    purpose: Purpose = Purpose.ACT
    hand_holds: bool = False
    expected_resume_s: float = 0.0

# SPDX-License-Identifier: Apache-2.0
"""The agent's memory in words: tools, steps that were done, what came of them, lessons.

Each of these words is one token of its own, ``<grasp>`` or ``<missed>``, which no instruction can
spell: angle brackets are taken out of instructions. Knows no tokenizer, no image and no robot.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
import re

from cloud_backbone.plan_vocabulary import Thing, Vocabulary


class Tool(Enum):
    """What the agent may call."""

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

    NORMAL = ''
    SLOWLY = 'slowly'
    LOW = 'low'


class StepResult(Enum):
    """What came of a call, as the robot measured it."""

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


class Fact(Enum):
    """What a lesson says of a thing."""

    SLIPS = 'slips'
    LOW = 'low'
    MOVES = 'moves'


AGENT = '<agent>'
DID = '<did>'
LESSON = '<lesson>'
TRIAL_FAILED = '<trial_failed>'
HAND_EMPTY, HAND_FULL = '<hand_empty>', '<hand_full>'
HOLDING = '<holding>'
AGENT_TOKENS = (
    AGENT, DID, LESSON, TRIAL_FAILED, HAND_EMPTY, HAND_FULL, HOLDING,
    *(f'<{tool.value}>' for tool in Tool),
    '<slowly>', '<low>',
    *(f'<{result.value}>' for result in StepResult),
    '<slips>', '<moves>',
)
SYSTEM = AGENT + ''.join(f'<{tool.value}>' for tool in Tool)
"""The first segment of every agent's memory: the tools, always in this order."""
MOST_LESSONS = 3
_SENTENCES = {
    Fact.SLIPS: 'The {} slips: grasp and carry it slowly.',
    Fact.LOW: 'The {} is low: grasp it lower.',
    Fact.MOVES: 'The {} moves: look before each step.',
}
_SENTENCE = re.compile(r'The (\w+ \w+) (slips|is low|moves): .+')
_FACTS = {'slips': Fact.SLIPS, 'is low': Fact.LOW, 'moves': Fact.MOVES}


@dataclass(frozen=True)
class ToolCall:
    """One call: ``thing`` is what it handles, ``target`` where to; both may be None."""

    tool: Tool
    thing: Thing | None = None
    target: Thing | None = None
    manner: Manner = Manner.NORMAL


@dataclass(frozen=True)
class HistoryEntry:
    """A call and what came of it."""

    call: ToolCall
    result: StepResult


@dataclass(frozen=True)
class Lesson:
    """Something about a thing that a failed trial has shown."""

    fact: Fact
    thing: Thing

    def __str__(self) -> str:
        """Sentence for people; ``read_lesson`` reads it back."""
        return _SENTENCES[self.fact].format(self.thing)


@dataclass(frozen=True)
class Memory:
    """What an agent knows besides its goal.

    Attributes:
        lessons: of earlier trials, at most three.
        history: of this trial.
        hand_holds: whether there is something in the gripper.
        is_over: the trial has failed; a lesson is wanted instead of a call.
    """

    lessons: tuple[Lesson, ...] = ()
    history: tuple[HistoryEntry, ...] = ()
    hand_holds: bool = False
    is_over: bool = False


def entry_text(entry: HistoryEntry) -> str:
    """Return one step of the history; a place is named where a thing was brought."""
    call = entry.call
    about = call.target if call.tool in (Tool.PLACE, Tool.STACK, Tool.PUSH) else call.thing
    named = f' the {about}' if about is not None and call.tool in _NAMING else ''
    manner = f'<{call.manner.value}>' if call.manner is not Manner.NORMAL else ''
    return f'{DID}<{call.tool.value}>{named}{manner}<{entry.result.value}>'


_NAMING = (Tool.GRASP, Tool.PLACE, Tool.STACK, Tool.PUSH)


def lesson_text(lesson: Lesson) -> str:
    """Return a lesson as it stands in the memory, and as a model writes it."""
    return f'{LESSON} the {lesson.thing}<{lesson.fact.value}>'


def read_lesson(sentence: str, vocabulary: Vocabulary) -> Lesson:
    """Read a lesson's sentence.

    Raises:
        ValueError: it is no lesson, or about something outside the vocabulary.
    """
    match = _SENTENCE.fullmatch(sentence)
    lesson = Lesson(_FACTS[match[2]], vocabulary.thing(match[1])) if match else None
    if lesson is None or str(lesson) != sentence:
        allowed = '; '.join(text.format('red cube') for text in _SENTENCES.values())
        raise ValueError(f'{sentence!r} is no lesson; lessons are, for example: {allowed}')
    return lesson


def hand_text(memory: Memory) -> str:
    """Return what is said before the image."""
    over = TRIAL_FAILED if memory.is_over else ''
    return over + (HAND_FULL if memory.hand_holds else HAND_EMPTY)

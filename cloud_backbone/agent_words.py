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
from cloud_backbone.task_memory import HistoryEntry, Manner, StepResult, Tool


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
class Lesson:
    """Something about a thing that a failed trial has shown."""

    fact: Fact
    thing: Thing

    def __str__(self) -> str:
        """Sentence for people; ``read_lesson`` reads it back."""
        return _SENTENCES[self.fact].format(self.thing)


def entry_text(entry: HistoryEntry, vocabulary: Vocabulary) -> str:
    """Return one step of the history; a place is named where a thing was brought.

    A claim that was denied leaves no words: it bars the next claim (``act_bounds``).

    Raises:
        ValueError: a name outside the vocabulary.
    """
    call = entry.call
    if call.tool is Tool.DONE:
        return ''
    name = call.object_name if call.tool is Tool.GRASP else ''
    name = call.target_name if call.tool in (Tool.PLACE, Tool.STACK, Tool.PUSH) else name
    named = f' the {vocabulary.thing(name)}' if name else ''
    return f'{DID}<{call.tool.value}>{named}{manner_text(call.manner)}<{entry.result.value}>'


def manner_text(manner: Manner) -> str:
    """Return the word of a manner; nothing for the normal one."""
    return '' if manner is Manner.NORMAL else f'<{manner.value}>'


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


def hand_text(hand_holds: bool, is_over: bool) -> str:
    """Return what is said before the image; ``is_over``: the trial failed, a lesson is due."""
    return (TRIAL_FAILED if is_over else '') + (HAND_FULL if hand_holds else HAND_EMPTY)

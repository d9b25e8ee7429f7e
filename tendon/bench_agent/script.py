# SPDX-License-Identifier: Apache-2.0
"""The session that every arm is put through: which tokens the model sees at each turn, and why.

A turn's sequence is system, goal, lessons, history, scene; then the model writes its thought. The
script is drawn from a seed and knows no model, only how text becomes tokens.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
import random

from tendon.bench_agent.size import MAX_LESSONS, Size

Encode = Callable[[str], list[int]]
Tokens = tuple[int, ...]

TOOLS = (
    'look: take a new picture of the table.', 'grasp: close the fingers around a thing.',
    'place: put what the hand holds into a bin.', 'stack: put it on another thing.',
    'push: shift a thing by the closed hand.', 'release: open the fingers where the hand is.',
    'ask: put a question to the person and wait.', 'done: say that the goal is reached.',
    'stop: give up, and say why.',
)
COLOURS = ('red', 'green', 'blue', 'yellow', 'purple', 'orange', 'white', 'black')
KINDS = ('cube', 'ball', 'cylinder')
RESULTS = ('held', 'missed', 'slipped', 'placed', 'fell', 'pushed', 'seen')
CALLS = ('grasp', 'place', 'stack', 'push', 'look')


class Event(Enum):
    """What happens at a turn beside the routine: a new entry, a new scene."""

    APPEND = 'append'
    MEND = 'mend'
    """What an entry in the middle of the history says turns out to be otherwise."""
    LESSON = 'lesson'
    """One more before the history."""
    COMPACTION = 'compact'
    """The older half of the entries becomes one."""
    RESTART = 'restart'
    """The process is gone; what the arm has stored is there."""


@dataclass(frozen=True)
class Turn:
    """What stands in the segments at one turn."""

    event: Event
    system: Tokens
    goal: Tokens
    lessons: Tokens
    history: tuple[Tokens, ...]
    """Entries, the oldest first; the last one is this turn's."""
    scene: Tokens
    thought: Tokens
    """What the model writes; drawn too, so that all arms go on alike."""

    @property
    def told(self) -> Tokens:
        """All entries in a row."""
        return tuple(token for entry in self.history for token in entry)

    @property
    def prompt(self) -> Tokens:
        """Everything before the thought."""
        return (*self.system, *self.goal, *self.lessons, *self.told, *self.scene)


class Script:
    """Draws turns.

    Args:
        encode: turns text into tokens.
        size: lengths and how often what happens.
        seed: of all draws.
    """

    def __init__(self, encode: Encode, size: Size, seed: int) -> None:
        self._encode, self._size = encode, size
        self._random = random.Random(seed)

    def turns(self) -> Iterator[Turn]:
        """Yield the turns of one session."""
        size = self._size
        system = self._tokens(['You move a robot arm by tools.', *TOOLS], size.system)
        goal = self._text(self._goal, size.goal)
        lessons: tuple[Tokens, ...] = (self._text(self._lesson, size.lesson),)
        history: tuple[Tokens, ...] = ()
        for number in range(size.turns):
            event = self._event(number, len(history))
            if event is Event.LESSON:
                lessons = (*lessons, self._text(self._lesson, size.lesson))[-MAX_LESSONS:]
            elif event is Event.MEND:
                middle = len(history) // 2
                mended = self._text(self._entry, size.entry)
                history = (*history[:middle], mended, *history[middle + 1:])
            elif event is Event.COMPACTION:
                summary = self._text(self._entry, size.entry)
                history = (summary, *history[len(history) // 2:])
            history = (*history, self._text(self._entry, size.entry))
            yield Turn(
                event, system, goal, tuple(token for one in lessons for token in one), history,
                self._text(self._thing, size.scene), self._text(self._entry, size.thought),
            )

    def _event(self, number: int, entries: int) -> Event:
        size = self._size
        if entries >= size.memory:
            return Event.COMPACTION
        if number and number % size.restart_every == 0:
            return Event.RESTART
        if number and number % size.lessons_every == size.lessons_every // 2:
            return Event.LESSON
        if entries > 2 and number % size.mend_every == 0:
            return Event.MEND
        return Event.APPEND

    def _text(self, sentence: Callable[[], str], length: int) -> Tokens:
        """Draw sentences until they fill a segment exactly."""
        tokens: list[int] = []
        while len(tokens) < length:
            tokens += self._encode(sentence())
        return tuple(tokens[:length])

    def _tokens(self, sentences: Sequence[str], length: int) -> Tokens:
        """Return given sentences, drawn ones after them until the segment is full."""
        tokens = self._encode(' '.join(sentences))
        return (*tokens, *self._text(self._lesson, length))[:length]

    def _name(self) -> str:
        return f'{self._random.choice(COLOURS)} {self._random.choice(KINDS)}'

    def _goal(self) -> str:
        return f' Goal: put the {self._name()} into the {self._random.choice(COLOURS)} bin.'

    def _lesson(self) -> str:
        return f' Lesson: the {self._name()} {self._random.choice(("slips", "is low"))}.'

    def _entry(self) -> str:
        call, result = self._random.choice(CALLS), self._random.choice(RESULTS)
        return f' Did: {call} the {self._name()}. Result: {result}.'

    def _thing(self) -> str:
        x, y = self._random.randrange(1000), self._random.randrange(1000)
        return f' The {self._name()} is at {x}, {y}.'

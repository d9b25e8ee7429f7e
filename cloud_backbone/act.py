# SPDX-License-Identifier: Apache-2.0
"""One thought with the call that follows from it: as data, as text, and as a grammar.

Knows names and locations in the image; knows no tokenizer, no model and no robot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
import re

from cloud_backbone.agent_words import Fact, HOLDING, LESSON, Lesson, manner_text
from cloud_backbone.plan_grammar import (
    LOCATION_BINS,
    Point,
    spell,
    tasks_for,
    value_of,
)
from cloud_backbone.plan_vocabulary import Kind, Thing, Vocabulary
from cloud_backbone.task_memory import Manner, Tool


@dataclass(frozen=True)
class Act:
    """What the agent thinks and calls; points are (x, y) in 0..1 from the top left.

    Attributes:
        tool: the call.
        a: the thing that it is about; with LOOK and STOP the one that is not there, unless
            ``a_point`` says where it is.
        b: the place, if one is named.
        a_point: where a is; None if it is held, or not there.
        b_point: where b is.
        holding: whether a is in the gripper.
        manner: how.
    """

    tool: Tool
    a: Thing
    b: Thing | None = None
    a_point: Point | None = None
    b_point: Point | None = None
    holding: bool = False
    manner: Manner = Manner.NORMAL

    @property
    def is_absent(self) -> bool:
        """Whether the act says that a is not there."""
        return self.a_point is None and not self.holding


def compose_act(act: Act) -> str:
    """Write an act as the text that a model is trained to write."""
    call = f'.<{act.tool.value}>{manner_text(act.manner)}'
    if act.is_absent:
        return f' There is no {act.a}{call}'
    seen = f'{HOLDING} the {act.a}' if act.holding else f' The {act.a} is at {spell(act.a_point)}'
    if act.b is not None:
        seen += f', the {act.b} at {spell(act.b_point)}'
    return seen + call


def thought_of_act(act: Act) -> str:
    """Return the thought for people."""
    text = compose_act(act).split('.<')[0].replace(HOLDING, 'Holding')
    return text.strip() + '.'


def parse_act(text: str, vocabulary: Vocabulary) -> Act:
    """Read a text that ``compose_act`` could have written. Raises ValueError for any other."""
    match = _ACT.fullmatch(text)
    if not match:
        raise ValueError(f'not an act: {text!r}')
    return Act(
        tool=Tool(match['tool']),
        a=vocabulary.thing(match['a'] or match['held'] or match['gone']),
        b=vocabulary.thing(match['b']) if match['b'] else None,
        a_point=_point(match['ax'], match['ay']) if match['a'] else None,
        b_point=_point(match['bx'], match['by']) if match['b'] else None,
        holding=bool(match['held']),
        manner=Manner(match['manner'] or Manner.NORMAL.value),
    )


def parse_lesson(text: str, vocabulary: Vocabulary) -> Lesson:
    """Read a text that ``lesson_text`` could have written. Raises ValueError for any other."""
    match = re.fullmatch(rf'{LESSON} the (\w+ \w+)<(\w+)>', text)
    if not match:
        raise ValueError(f'not a lesson: {text!r}')
    return Lesson(Fact(match[2]), vocabulary.thing(match[1]))


_ACT = re.compile(
    r'(?: There is no (?P<gone>\w+ \w+)'
    rf'|(?:{HOLDING} the (?P<held>\w+ \w+)'
    r'| The (?P<a>\w+ \w+) is at <(?P<ax>\d{3})><(?P<ay>\d{3})>)'
    r'(?:, the (?P<b>\w+ \w+) at <(?P<bx>\d{3})><(?P<by>\d{3})>)?)'
    rf'\.<(?P<tool>{"|".join(tool.value for tool in Tool)})>(?:<(?P<manner>slowly|low)>)?'
)


def _point(x: str, y: str) -> Point:
    if max(int(x), int(y)) >= LOCATION_BINS:
        raise ValueError(f'location <{x}><{y}> is outside 000 to {LOCATION_BINS - 1}')
    return value_of(int(x)), value_of(int(y))


@dataclass(frozen=True)
class Symbols:
    """How a tokenizer writes words and locations in a grammar.

    ``word`` gives the symbol of a word in angle brackets, ``location`` that of any location.
    """

    word: Callable[[str], str]
    location: str


SPELLED = Symbols(lambda word: f'"{word}"', '"<" /0[0-9][0-9]|1[01][0-9]|12[0-7]/ ">"')
"""For tokenizers without tokens of their own for words and locations."""


@dataclass(frozen=True)
class Bounds:
    """What an act may be at one moment, beside what the kinds of things allow.

    Attributes:
        hand_holds: whether the gripper holds something.
        held: what it is, where that is known.
        place: where it is to go, where that is known.
        barred: tools that may not be called.
        refusable: whether the act may say that the thing is not there.
    """

    hand_holds: bool = False
    held: Thing | None = None
    place: Thing | None = None
    barred: frozenset[Tool] = frozenset()
    refusable: bool = True


def act_grammar(vocabulary: Vocabulary, symbols: Symbols, bounds: Bounds) -> str:
    """Return the Lark grammar of the acts that make sense within bounds."""
    written = _held if bounds.hand_holds else _seen
    rules = {
        f'{kind.name}_{colour}': written(kind, colour, vocabulary, bounds)
        for kind in vocabulary.kinds.values() if kind.graspable
        for colour in kind.colours
        if not bounds.hand_holds or bounds.held in (None, Thing(colour, kind.name))
    }
    if bounds.refusable and not bounds.hand_holds:
        names = ' | '.join(vocabulary.kinds)
        rules['absent'] = f'" There is no " ({names}) "." (<look> | <stop>)'
    lines = ['start: ' + ' | '.join(rules)]
    lines += [f'{name}: {body}' for name, body in rules.items()]
    lines += _names(vocabulary)
    lines.append(f'at: {symbols.location} {symbols.location}')
    return _with_words('\n'.join(lines), symbols.word)


def lesson_grammar(vocabulary: Vocabulary, symbols: Symbols, about: Thing | None = None) -> str:
    """Return the Lark grammar of lessons; of those about one thing where that is known."""
    kinds = [kind.name for kind in vocabulary.kinds.values() if kind.graspable]
    named = f'"{about}"' if about is not None else ' | '.join(kinds)
    names = _names(vocabulary) if about is None else []
    lines = [f'start: <lesson> " the " ({named}) fact', *names]
    lines.append('fact: ' + ' | '.join(f'<{fact.value}>' for fact in Fact))
    return _with_words('\n'.join(lines), symbols.word)


def _names(vocabulary: Vocabulary) -> list[str]:
    kinds = vocabulary.kinds.values()
    return [f'{kind.name}: ({_any(kind.colours)}) " {kind.name}"' for kind in kinds]


def _seen(kind: Kind, colour: str, vocabulary: Vocabulary, bounds: Bounds) -> str:
    """Return what may be written about a thing on the table."""
    ends = ['"." (<look> | <grasp> (<slowly> | <low>)?)']
    ends += [
        f'", the " {name} " at " at "." ({_calls(kind, other, bounds)})'
        for other, name in _targets(kind, colour, vocabulary)
    ]
    return f'" The {colour} {kind.name} is at " at ({" | ".join(ends)})'


def _held(kind: Kind, colour: str, vocabulary: Vocabulary, bounds: Bounds) -> str:
    """Return what may be written about a thing in the gripper."""
    ends = [f'"." ({_allowed([Tool.RELEASE, Tool.DONE], bounds)})']
    for other, name in _targets(kind, colour, vocabulary):
        if bounds.place is not None and bounds.place.kind == other.name:
            name = f'"{bounds.place}"'
        elif bounds.place is not None:
            continue
        put = '<place>' if other.container else '<stack>'
        calls = f'{put} <slowly>? | {_allowed([Tool.RELEASE, Tool.ASK], bounds)}'
        ends.append(f'", the " {name} " at " at "." ({calls})')
    return f'<holding> " the {colour} {kind.name}" ({" | ".join(ends)})'


def _calls(kind: Kind, other: Kind, bounds: Bounds) -> str:
    tools = [Tool.STOP, Tool.DONE, Tool.ASK]
    if 'push' in _tasks(kind, other):
        tools.append(Tool.PUSH)
    return f'<grasp> (<slowly> | <low>)? | {_allowed(tools, bounds)}'


def _allowed(tools: Sequence[Tool], bounds: Bounds) -> str:
    """Return the calls of those tools that are not barred; the first never is."""
    free = [tool for tool in tools if tool is tools[0] or tool not in bounds.barred]
    return ' | '.join(f'<{tool.value}>' for tool in free)


def _targets(kind: Kind, colour: str, vocabulary: Vocabulary) -> list[tuple[Kind, str]]:
    """Return the kinds that a thing can be brought to, and how their names are written.

    No thing can be brought to itself.
    """
    found = []
    for other in vocabulary.kinds.values():
        if _tasks(kind, other):
            colours = tuple(name for name in other.colours if (other, name) != (kind, colour))
            found.append((other, f'({_any(colours)}) " {other.name}"'))
    return found


@cache
def _tasks(kind: Kind, other: Kind) -> tuple[str, ...]:
    """Return what can be done with two different things of these kinds."""
    kinds = {'a': kind, 'b': other}
    return tasks_for(Thing('', 'a'), Thing('', 'b'), lambda thing: kinds[thing.kind])


def _any(texts: tuple[str, ...]) -> str:
    return ' | '.join(f'"{text}"' for text in texts)


def _with_words(grammar: str, word: Callable[[str], str]) -> str:
    """Put the symbols of words in angle brackets into a grammar."""
    return re.sub(r'<(?!\[)[a-z_]+>', lambda match: word(match[0]), grammar)

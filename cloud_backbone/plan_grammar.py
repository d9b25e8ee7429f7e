# SPDX-License-Identifier: Apache-2.0
"""The language of plans: a draft, its text, and the moves by which a model may write one.

A location is a value from 0 to 1, written as one of 128 bins: ``<042>``. The text is the same
whether a tokenizer has location tokens or spells them. Knows no tokenizer and no robot.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
import re

from cloud_backbone.plan_vocabulary import Kind, Thing, Vocabulary

LOCATION_BINS = 128
LOCATION_TOKENS = tuple(f'<{index:03d}>' for index in range(LOCATION_BINS))
OUTCOMES = ('steps', 'done', 'refused')
SKELETONS = {
    'pick': ' reach A, grasp A, lift, hold.',
    'put': ' reach A, grasp A, lift, move B, place B, lift, home.',
    'stack': ' reach A, grasp A, lift, move B, stack B, lift, home.',
    'push': ' approach A, push B, lift, home.',
}
TASKS = tuple(SKELETONS)
Point = tuple[float, float]


@dataclass(frozen=True)
class PlanDraft:
    """What a plan says before it is grounded; points are (x, y) in 0..1 from the top left.

    ``task`` and ``b`` are None where the text does not name them; ``a`` of a refusal is the
    thing that is not there.
    """

    outcome: str
    a: Thing
    b: Thing | None = None
    a_point: Point | None = None
    b_point: Point | None = None
    task: str | None = None


def bin_of(value: float) -> int:
    """Return the bin (0..127) of a location (0..1); values outside go to the outermost bins."""
    return min(max(int(value * LOCATION_BINS), 0), LOCATION_BINS - 1)


def value_of(index: float) -> float:
    """Return the location (0..1) in the middle of a bin; a fractional index is welcome."""
    return (index + 0.5) / LOCATION_BINS


def compose(draft: PlanDraft) -> str:
    """Write a draft as the text that a model is trained to write."""
    if draft.outcome == 'refused':
        return f' There is no {draft.a}. Stop.'
    text = f' The {draft.a} is at {spell(draft.a_point)}'
    if draft.b is not None:
        text += f', the {draft.b} at {spell(draft.b_point)}'
    if draft.outcome == 'done':
        return f'{text}. Done.'
    if draft.task not in SKELETONS:
        raise ValueError(f'unknown task {draft.task!r}; tasks are {", ".join(TASKS)}')
    return f'{text}. Plan:{SKELETONS[draft.task]}'


def thought_of(draft: PlanDraft) -> str:
    """Return the reasoning part of a draft's text."""
    return compose(draft).split(' Plan:')[0].strip()


def parse(text: str, vocabulary: Vocabulary) -> PlanDraft:
    """Read a text that ``compose`` could have written. Raises ValueError for any other."""
    match = _ABSENT.fullmatch(text)
    if match:
        return PlanDraft('refused', vocabulary.thing(match['a']))
    match = _PRESENT.fullmatch(text)
    tasks = {skeleton: task for task, skeleton in SKELETONS.items()}
    if not match or not (match['done'] or match['skeleton'] in tasks):
        raise ValueError(f'not a plan: {text!r}')
    return PlanDraft(
        outcome='done' if match['done'] else 'steps',
        a=vocabulary.thing(match['a']),
        b=vocabulary.thing(match['b']) if match['b'] else None,
        a_point=_point(match['ax'], match['ay']),
        b_point=_point(match['bx'], match['by']) if match['b'] else None,
        task=None if match['done'] else tasks[match['skeleton']],
    )


_ABSENT = re.compile(r' There is no (?P<a>\w+ \w+)\. Stop\.')
_PRESENT = re.compile(
    r' The (?P<a>\w+ \w+) is at <(?P<ax>\d{3})><(?P<ay>\d{3})>'
    r'(?:, the (?P<b>\w+ \w+) at <(?P<bx>\d{3})><(?P<by>\d{3})>)?'
    r'(?:(?P<done>\. Done\.)|\. Plan:(?P<skeleton>.+))'
)


def _point(x: str, y: str) -> Point:
    if max(int(x), int(y)) >= LOCATION_BINS:
        raise ValueError(f'location <{x}><{y}> is outside 000 to {LOCATION_BINS - 1}')
    return value_of(int(x)), value_of(int(y))


def spell(point: Point | None) -> str:
    """Write a point as two locations. Raises ValueError for None."""
    if point is None:
        raise ValueError('a draft that names a thing in the image needs its point')
    return ''.join(LOCATION_TOKENS[bin_of(value)] for value in point)


@dataclass(frozen=True)
class Choice:
    """The model writes one of these texts; none is the start of another. The reply is the text."""

    texts: tuple[str, ...]
    sensible: tuple[str, ...]
    """Those that can still become a plan without fault."""


@dataclass(frozen=True)
class Location:
    """The model writes one location. The reply is its value (0..1)."""


Move = Choice | Location
Reply = str | float
Moves = Generator[Move, Reply, PlanDraft]


def moves(vocabulary: Vocabulary, refusable: bool = True) -> Moves:
    """Lead a model through one plan: yields a move, is sent the reply, returns the draft.

    If all replies are sensible ones, the draft makes sense (``fault_of`` finds nothing). Unless
    ``refusable``, it is no sensible reply that the thing is not there.
    """
    kind_of, things = vocabulary.kind_of, vocabulary.things
    refusals = {f' There is no {thing}. Stop.': thing for thing in things}
    present = {f' The {thing} is at ': thing for thing in things}
    graspable = (text for text, thing in present.items() if kind_of(thing).graspable)
    sensible = (*graspable, *(refusals if refusable else ()))
    opening = str((yield Choice((*present, *refusals), sensible)))
    if opening in refusals:
        return PlanDraft('refused', refusals[opening])
    a = present[opening]
    a_point = yield from _locations()
    ends: dict[str, str | None] = {f'. Plan:{SKELETONS["pick"]}': 'pick', '. Done.': None}
    targets = {f', the {thing} at ': thing for thing in things}
    fitting = (text for text, thing in targets.items() if tasks_for(a, thing, kind_of))
    tail = str((yield Choice((*ends, *targets), (*ends, *fitting))))
    if tail in ends:
        return _draft(a, None, a_point, None, ends[tail])
    b = targets[tail]
    b_point = yield from _locations()
    tasks = tasks_for(a, b, kind_of) or ('put', 'stack', 'push')
    ends = {**{f'. Plan:{SKELETONS[task]}': task for task in tasks}, '. Done.': None}
    end = str((yield Choice(tuple(ends), tuple(ends))))
    return _draft(a, b, a_point, b_point, ends[end])


def _draft(
    a: Thing, b: Thing | None, a_point: Point, b_point: Point | None, task: str | None
) -> PlanDraft:
    return PlanDraft('steps' if task else 'done', a, b, a_point, b_point, task)


def tasks_for(a: Thing, b: Thing, kind_of: Callable[[Thing], Kind]) -> tuple[str, ...]:
    """Return the tasks that make sense with ``a`` handled and ``b`` as the target."""
    from_kind, to_kind = kind_of(a), kind_of(b)
    if a == b or not from_kind.graspable:
        return ()
    possible = {
        'put': to_kind.container,
        'stack': to_kind.support and from_kind.stackable,
        'push': to_kind.container and from_kind.pushable,
    }
    return tuple(task for task, allowed in possible.items() if allowed)


def fault_of(draft: PlanDraft, vocabulary: Vocabulary) -> str | None:
    """Return why a draft makes no sense, in one sentence, or None."""
    if draft.outcome == 'refused':
        return None
    if not vocabulary.kind_of(draft.a).graspable:
        return f'the {draft.a} cannot be handled'
    if draft.b is None:
        return None if draft.task in ('pick', None) else f'{draft.task} needs a target'
    tasks = tasks_for(draft.a, draft.b, vocabulary.kind_of)
    if not tasks or draft.task not in (*tasks, None):
        return f'cannot {draft.task or "bring"} the {draft.a} to the {draft.b}'
    return None


def _locations() -> Generator[Move, Reply, Point]:
    x = yield Location()
    y = yield Location()
    return float(x), float(y)

# SPDX-License-Identifier: Apache-2.0
"""Moments in the middle of a task: what was done, what came of it, and the right next call.

Drawn about one scene, failures included: missed grasps, things that slipped, fell or were moved,
occupied places, things that are not there, lessons that apply and lessons that do not. Knows
relations of things and the rules of a good agent; knows no images and no model's language.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from numpy.random import Generator
from sim.entity import HELD_OUT, OBJECT_COLOURS, OBJECT_KINDS, STACKABLE_KINDS
from sim.instructions import is_free, Name, sample, say, Thing, Wording
from sim.situation import Entry, Lesson, Situation

Item = TypeVar('Item')

FAILURES = ('missed', 'missed', 'slipped', 'fell', 'failed', 'stopped', 'refused')
LESSON_OF = {'slipped': 'slips', 'missed': 'low'}


@dataclass(frozen=True)
class _Goal:
    text: str
    task: str
    a: Name
    b: Name | None
    a_index: int
    b_index: int
    template: int


def draw_situations(
    rng: Generator, things: Sequence[Thing], count: int, wording: Wording = 'known',
    novel: bool = False,
) -> list[Situation]:
    """Draw up to ``count`` moments about a scene; fewer if the scene offers nothing.

    Args:
        rng: source of all choices.
        things: entities of the scene.
        count: how many.
        wording: 'known' sentences are for training, 'unseen' ones for evaluation only.
        novel: whether absent things may have a held-out colour and kind.
    """
    draw = _Draw(rng, things, wording, novel)
    held = draw.held >= 0
    kinds = [draw.carrying, draw.carrying, draw.blocked, draw.mistaken] if held else [
        draw.begun, draw.begun, draw.begun, draw.blocked, draw.blocked, draw.fulfilled,
        draw.absent, draw.over, draw.over,
    ]
    drawn = [kinds[rng.integers(len(kinds))]() for _ in range(3 * count)]
    return [situation for situation in drawn if situation is not None][:count]


class _Draw:
    """Draws one kind of moment after the other."""

    def __init__(
        self, rng: Generator, things: Sequence[Thing], wording: Wording, novel: bool
    ) -> None:
        self.rng, self.things, self.wording, self.novel = rng, things, wording, novel
        self.held = next((i for i, thing in enumerate(things) if thing.held), -1)

    def begun(self) -> Situation | None:
        """Draw a moment at the start, or after failures: try, as lessons say."""
        goal = self._sampled('steps')
        if goal is None:
            return None
        lessons = self._lessons(goal)
        tool = 'push' if goal.task == 'push' else 'grasp'
        manner = _manner(lessons, goal.a, tool)
        past = self._past(goal, manner)
        return self._situation(goal, lessons, past, tool, manner)

    def carrying(self) -> Situation | None:
        """Draw a moment with the right thing in the gripper."""
        goal = self._held_goal()
        if goal is None:
            return None
        lessons = self._lessons(goal)
        manner = _manner(lessons, goal.a, 'grasp')
        past = (*self._past(goal, manner), (('grasp', goal.a, manner), 'held'))
        tool = {'pick': 'done', 'put': 'place', 'stack': 'stack'}[goal.task]
        manner = _manner(lessons, goal.a, tool)
        return self._situation(goal, lessons, past, tool, manner, holding=True)

    def mistaken(self) -> Situation | None:
        """Draw a moment with the wrong thing in the gripper."""
        goal = self._sampled('steps')
        if goal is None or self.held in (goal.a_index, goal.b_index):
            return None
        wrong = _name(self.things[self.held])
        past = (*self._past(goal, ''), (('grasp', goal.a, ''), 'held'))
        about = _Goal(goal.text, goal.task, wrong, None, self.held, -1, goal.template)
        return self._situation(about, self._lessons(goal), past, 'release', '', holding=True)

    def blocked(self) -> Situation | None:
        """Draw a moment in which the place is taken: ask; give up when nobody answers."""
        goal = self._blocked_goal()
        if goal is None:
            return None
        lessons, holding = self._lessons(goal), self.held >= 0
        past = self._past(goal, '', asked=False)
        if holding:
            past = (*past, (('grasp', goal.a, _manner(lessons, goal.a, 'grasp')), 'held'))
        ignored = self.rng.random() < 0.3
        if ignored:
            past = (*past, (('ask', None, ''), 'unanswered'))
        tool = ('release' if holding else 'stop') if ignored else 'ask'
        return self._situation(goal, lessons, past, tool, '', holding=holding)

    def fulfilled(self) -> Situation | None:
        """Draw a moment in which nothing is left to do."""
        goal = self._sampled('done')
        if goal is None:
            return None
        lessons = self._lessons(goal)
        tool = {'put': 'place', 'stack': 'stack', 'push': 'push'}[goal.task]
        past = self._past(goal, '')
        if self.rng.random() < 0.8:
            manner = _manner(lessons, goal.a, 'grasp')
            last = (tool, goal.b, _manner(lessons, goal.a, tool))
            if tool == 'push':
                past = (*past, (last, 'pushed'))
            else:
                past = (*past, (('grasp', goal.a, manner), 'held'), (last, 'placed'))
        return self._situation(goal, lessons, past, 'done', '')

    def absent(self) -> Situation | None:
        """Draw a moment in which the thing is not to be seen: look again, then give up."""
        goal = self._sampled('refused')
        if goal is None:
            return None
        missing = goal.a if goal.a_index < 0 or goal.b is None else goal.b
        about = _Goal(goal.text, goal.task, missing, None, -1, -1, goal.template)
        looked = self.rng.random() < 0.5
        past: tuple[Entry, ...] = ((('look', None, ''), 'seen'),) if looked else ()
        tool = 'stop' if looked else 'look'
        return self._situation(about, self._lessons(goal), past, tool, '')

    def over(self) -> Situation | None:
        """Draw the end of a failed trial: what is to be learned from it?"""
        goal = self._sampled('steps')
        if goal is None:
            return None
        code = _pick(self.rng, ('slipped', 'missed', 'fell', 'failed'))
        lessons = tuple(item for item in self._lessons(goal) if item[0] == 'moves')
        tool = 'push' if goal.task == 'push' else 'grasp'
        if tool == 'push':
            code = 'failed'
        entry: Entry = ((tool, goal.a if tool == 'grasp' else goal.b, ''), code)
        past = self._past(goal, '')[:2] + (entry,) * int(self.rng.integers(2, 6))
        return self._situation(
            goal, lessons, past, 'lesson', LESSON_OF.get(code, 'moves'), is_over=True
        )

    def _situation(
        self, goal: _Goal, lessons: tuple[Lesson, ...], past: tuple[Entry, ...], tool: str,
        manner: str, holding: bool = False, is_over: bool = False,
    ) -> Situation:
        return Situation(
            goal.text, goal.task, goal.a, goal.b, goal.a_index, goal.b_index, goal.template,
            lessons, past, is_over, self.held >= 0, holding, tool, manner,
        )

    def _sampled(self, outcome: str) -> _Goal | None:
        try:
            said = sample(self.rng, self.things, self.wording, self.novel, outcome)  # type: ignore[arg-type]
        except ValueError:
            return None
        if said.outcome != outcome:
            return None
        return _Goal(
            said.text, said.task, said.a, said.b, said.a_index, said.b_index, said.template
        )

    def _held_goal(self) -> _Goal | None:
        """Draw something to do with what is held."""
        kind = self.things[self.held].kind
        places = [('pick', -1)]
        places += [('put', i) for i in self._places('bin', taken=False)] * 2
        if kind in STACKABLE_KINDS:
            places += [('stack', i) for i in self._places('support', taken=False)]
        return self._goal(*_pick(self.rng, places), self.held)

    def _blocked_goal(self) -> _Goal | None:
        """Draw a goal whose place is taken by something else."""
        free = [i for i in range(len(self.things)) if is_free(self.things, i)]
        handled = [self.held] if self.held >= 0 else free
        goals = [
            (task, place, a)
            for task, kind in (('put', 'bin'), ('stack', 'support'))
            for place in self._places(kind, taken=True)
            for a in handled
            if task == 'put' or self.things[a].kind in STACKABLE_KINDS
        ]
        return self._goal(*_pick(self.rng, goals)) if goals else None

    def _places(self, kind: str, taken: bool) -> list[int]:
        """Return bins, or things that carry others, that are taken or free."""
        found = []
        for i, thing in enumerate(self.things):
            fits = thing.kind == 'bin' if kind == 'bin' else thing.kind in STACKABLE_KINDS
            stands = thing.inside < 0 and not thing.held
            if fits and stands and any(other.inside == i for other in self.things) == taken:
                found.append(i)
        return found

    def _goal(self, task: str, place: int, a: int) -> _Goal:
        names = _name(self.things[a]), _name(self.things[place]) if place >= 0 else None
        text, template = say(self.rng, task, *names, self.wording)
        return _Goal(text, task, *names, a, place, template)

    def _lessons(self, goal: _Goal) -> tuple[Lesson, ...]:
        """Draw up to three lessons; some are about the thing, some about others."""
        lessons: list[Lesson] = []
        for _ in range(int(self.rng.choice([0, 1, 2, 3], p=[0.45, 0.3, 0.15, 0.1]))):
            mine = self.rng.random() < 0.55 and goal.a[1] != 'bin'
            name = goal.a if mine else self._other(goal.a)
            fact = str(_pick(self.rng, ('slips', 'slips', 'low', 'low', 'moves')))
            if all(name != other for _, other in lessons):
                lessons.append((fact, name))
        return tuple(lessons)

    def _other(self, name: Name) -> Name:
        """Draw another thing, mostly one that shares the colour or the kind."""
        while True:
            other = _pick(self.rng, OBJECT_COLOURS), _pick(self.rng, OBJECT_KINDS)
            shares = other[0] == name[0] or other[1] == name[1]
            known = self.novel or other not in HELD_OUT
            if other != name and known and (shares or self.rng.random() < 0.3):
                return other

    def _past(self, goal: _Goal, manner: str, asked: bool = True) -> tuple[Entry, ...]:
        """Draw what was tried before, all in vain."""
        if self.rng.random() < 0.4:
            return ()
        entries: list[Entry] = []
        for _ in range(int(self.rng.choice([1, 2, 3, 6], p=[0.45, 0.3, 0.15, 0.1]))):
            entries += self._attempt(goal, manner, asked)
        return tuple(entries)

    def _attempt(self, goal: _Goal, manner: str, asked: bool) -> list[Entry]:
        roll = self.rng.random()
        if roll < 0.1:
            return [(('look', None, ''), 'seen')]
        if roll < 0.2 and asked:
            return [(('ask', None, ''), 'cleared')]
        if goal.task == 'push':
            return [(('push', goal.b, ''), str(_pick(self.rng, ('failed', 'stopped'))))]
        if roll < 0.65 or goal.b is None:
            return [(('grasp', goal.a, manner), str(_pick(self.rng, FAILURES)))]
        tool = 'stack' if goal.task == 'stack' else 'place'
        lost = str(_pick(self.rng, ('slipped', 'fell', 'fell', 'failed')))
        slow = manner if manner == 'slowly' else ''
        return [(('grasp', goal.a, manner), 'held'), ((tool, goal.b, slow), lost)]


def _manner(lessons: Sequence[Lesson], thing: Name, tool: str) -> str:
    """Return how the lessons about a thing say that a tool is to be used."""
    facts = {fact for fact, name in lessons if name == thing}
    if tool == 'grasp' and 'low' in facts:
        return 'low'
    return 'slowly' if tool in ('grasp', 'place', 'stack') and 'slips' in facts else ''


def _name(thing: Thing) -> Name:
    return thing.colour, thing.kind


def _pick(rng: Generator, items: Sequence[Item]) -> Item:
    return items[int(rng.integers(len(items)))]

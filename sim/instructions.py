# SPDX-License-Identifier: Apache-2.0
"""Instructions for a scene: what a person may say, and what a right answer to it is.

Knows which relations a scene already fulfils and what the arm can do (it takes nothing out of a
bin and nothing from under another thing). Does not know plans, images or poses of the arm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
import math
from typing import Literal, Protocol

from numpy.random import Generator
from sim.entity import BIN_COLOURS, HELD_OUT, OBJECT_COLOURS, OBJECT_KINDS, STACKABLE_KINDS
from sim.wordings import ARTICLES, CLOSINGS, OPENINGS, SYNONYMS, TRAINING, UNSEEN

Name = tuple[str, str]
Wording = Literal['known', 'unseen']
Outcome = Literal['steps', 'done', 'refused']

TASKS = ('put', 'put', 'put', 'stack', 'pick', 'pick', 'push')
TYPO_SHARE = 0.05
# A push ends at the bin's wall; scenes between the two distances are ambiguous and not asked.
TOUCHING_M = 0.095
APART_M = 0.125


class Thing(Protocol):
    """What this module needs to know of an entity of a scene."""

    @property
    def kind(self) -> str:
        """'cube', 'ball', 'cylinder' or 'bin'."""

    @property
    def colour(self) -> str:
        """Name of its colour."""

    @property
    def inside(self) -> int:
        """Index of the entity that carries this one, or -1."""

    @property
    def held(self) -> bool:
        """Whether the gripper holds it."""

    @property
    def x(self) -> float:
        """Position in the base frame [m]."""

    @property
    def y(self) -> float:
        """Position in the base frame [m]."""


@dataclass(frozen=True)
class Instruction:
    """One sentence with its meaning; indices point into the scene's entities, -1 for none.

    Of a refused one with ``a_index`` -1 the thing is missing, otherwise the place.
    """

    text: str
    task: str
    outcome: Outcome
    a: Name
    b: Name | None
    a_index: int
    b_index: int
    template: int


def sample(
    rng: Generator, things: Sequence[Thing], wording: Wording = 'known', novel: bool = False,
    outcome: Outcome | None = None, task: str | None = None,
) -> Instruction:
    """Draw an instruction about the scene.

    Args:
      rng: Source of all choices.
      things: Entities of the scene.
      wording: 'known' templates are for training, 'unseen' ones for evaluation only.
      novel: Whether absent things may have a held-out colour and kind.
      outcome: Wanted answer; None draws one. Falls back to 'steps' where the scene offers none.
      task: Wanted task; None draws one.

    Raises:
      ValueError: if nothing can be asked about this scene.
    """
    if outcome is None:
        outcome = rng.choice(['steps', 'done', 'refused'], p=[0.66, 0.22, 0.12])
    assert outcome is not None
    meanings = _meanings(rng, things, outcome, novel)
    meanings = [meaning for meaning in meanings if task in (None, meaning[0])]
    if not meanings and outcome != 'steps':
        return sample(rng, things, wording, novel, 'steps', task)
    if not meanings:
        raise ValueError(f'nothing can be asked: task {task}, {len(things)} entities')
    wanted = task or str(rng.choice(TASKS))
    meanings = [meaning for meaning in meanings if meaning[0] == wanted] or meanings
    chosen, a, b, a_index, b_index = meanings[rng.integers(len(meanings))]
    text, template = say(rng, chosen, a, b, wording)
    return Instruction(text, chosen, outcome, a, b, a_index, b_index, template)


_Meaning = tuple[str, Name, Name | None, int, int]


def _meanings(
    rng: Generator, things: Sequence[Thing], outcome: str, novel: bool
) -> list[_Meaning]:
    if outcome == 'refused':
        return _absent(rng, things, novel)
    name = [(thing.colour, thing.kind) for thing in things]
    pairs = [(i, j) for i in range(len(things)) for j in range(len(things)) if i != j]
    found: list[_Meaning] = [
        (task, name[i], name[j], i, j)
        for i, j in pairs
        for task in ('put', 'stack', 'push')
        if _state(things, task, i, j) == outcome
    ]
    if outcome == 'steps':
        found += [('pick', name[i], None, i, -1) for i in range(len(things)) if is_free(things, i)]
    return found


def is_free(things: Sequence[Thing], index: int) -> bool:
    """Say whether the arm can take this thing: an object on the table with nothing on it."""
    thing = things[index]
    covered = any(other.inside == index for other in things)
    return thing.kind != 'bin' and thing.inside < 0 and not thing.held and not covered


def _state(things: Sequence[Thing], task: str, i: int, j: int) -> str | None:
    """Say whether a task is 'done', needs 'steps', or (None) cannot be asked."""
    a, b = things[i], things[j]
    if task == 'put' and b.kind == 'bin':
        empty = all(other.inside != j for other in things)
        return 'done' if a.inside == j else 'steps' if empty and is_free(things, i) else None
    if task == 'stack' and b.kind in STACKABLE_KINDS:
        if a.inside == j:
            return 'done'
        return 'steps' if a.kind != 'ball' and is_free(things, i) and is_free(things, j) else None
    if task == 'push' and b.kind == 'bin' and a.kind in STACKABLE_KINDS and is_free(things, i):
        distance = math.hypot(a.x - b.x, a.y - b.y)
        return 'done' if distance < TOUCHING_M else 'steps' if distance > APART_M else None
    return None


def _absent(rng: Generator, things: Sequence[Thing], novel: bool) -> list[_Meaning]:
    """Return one meaning per task in which the thing, or sometimes the place, is not there."""
    here = {(thing.colour, thing.kind) for thing in things}
    objects = [(c, k) for c in OBJECT_COLOURS for k in OBJECT_KINDS if (c, k) not in here]
    objects = [name for name in objects if novel or name not in HELD_OUT]
    bins = [i for i, thing in enumerate(things) if thing.kind == 'bin']
    bases = [i for i, t in enumerate(things) if t.kind in STACKABLE_KINDS and is_free(things, i)]
    gone = objects[rng.integers(len(objects))]
    found: list[_Meaning] = [('pick', gone, None, -1, -1)]
    for task, places in (('put', bins), ('stack', bases), ('push', bins)):
        possible = [n for n in objects if n[1] != 'ball'] if task in ('stack', 'push') else objects
        for place in places:
            absent = possible[rng.integers(len(possible))]
            found.append((task, absent, (things[place].colour, things[place].kind), -1, place))
    found += _absent_places(rng, things)
    return found


def _absent_places(rng: Generator, things: Sequence[Thing]) -> list[_Meaning]:
    free = [i for i in range(len(things)) if is_free(things, i)]
    bins = {thing.colour for thing in things if thing.kind == 'bin'}
    missing = [colour for colour in BIN_COLOURS if colour not in bins]
    if not free or not missing:
        return []
    i = free[rng.integers(len(free))]
    place = (missing[rng.integers(len(missing))], 'bin')
    return [('put', (things[i].colour, things[i].kind), place, i, -1)]


def say(
    rng: Generator, task: str, a: Name, b: Name | None, wording: Wording
) -> tuple[str, int]:
    templates = (TRAINING if wording == 'known' else UNSEEN)[task]
    number = int(rng.integers(len(templates)))
    noun = {'a': _noun(rng, a), 'b': _noun(rng, b) if b else ''}
    text = templates[number].format(**noun)
    if not text.startswith(('I ', 'the', 'that', 'this')):
        text = str(rng.choice(OPENINGS)) + text
    text += str(rng.choice(CLOSINGS))
    if rng.random() < 0.4:
        text = text[0].upper() + text[1:]
    if rng.random() < 0.02:
        text = text.upper()
    if rng.random() < TYPO_SHARE:
        text = _mistype(rng, text)
    return text, number + (1000 if wording == 'unseen' else 0)


def _noun(rng: Generator, name: Name) -> str:
    colour, kind = name
    return f'{rng.choice(ARTICLES)} {colour} {rng.choice(SYNONYMS[kind])}'


def _mistype(rng: Generator, text: str) -> str:
    """Drop, double or swap one letter."""
    i = int(rng.integers(1, len(text) - 1))
    return str(rng.choice([
        text[:i] + text[i + 1:],
        text[:i] + text[i] + text[i:],
        text[:i] + text[i + 1] + text[i] + text[i + 2:],
    ]))

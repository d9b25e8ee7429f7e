# SPDX-License-Identifier: Apache-2.0
"""From a sentence to what is asked for, or why the small planner does not understand it.

The network guesses, and rules that no training can weaken check the guess: every word is known,
and a request names as many things as its task has, by the colours that were said. Sees no image.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onboard_decoder.fallback.onboard_model import About, Kind, Reading
from onboard_decoder.fallback.sentence_words import split_words

SIMPLE = ('pick', 'put', 'home', 'stay')
"""What the small planner does itself."""
_THINGS_NAMED = {'pick': 1, 'put': 2, 'home': 0, 'stay': 0}


@dataclass(frozen=True, slots=True)
class TooHard:
    """The small planner leaves this to the backbone.

    ``reason`` is for people; ``may_pass``: another image might be easier.
    """

    reason: str
    may_pass: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """A thing as it was named."""

    colour: str
    kind: Kind

    def __str__(self) -> str:
        return f'{self.colour} {self.kind.name}'


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for: the task, the thing, the place, and how sure that is, 0 to 1."""

    task: str
    a: Named | None
    b: Named | None
    certainty: float


def words_of(instruction: str, about: About) -> tuple[str, ...] | TooHard:
    """Return the words of a sentence if all are known and there are not too many."""
    words = tuple(split_words(instruction))
    unknown = [word for word in words if word not in about.words]
    if unknown:
        return TooHard(f'unknown words: {", ".join(dict.fromkeys(unknown))}')
    if not 1 <= len(words) <= about.most_words:
        return TooHard(f'{len(words)} words, 1 to {about.most_words} are understood')
    return words


def understand(words: tuple[str, ...], reading: Reading, about: About) -> Request | TooHard:
    """Return what the words ask for."""
    task = about.tasks[int(np.argmax(reading.task))]
    certainty = float(np.max(reading.task))
    if task not in SIMPLE:
        what = 'not understood' if task == 'other' else f'to {task} needs the backbone'
        return TooHard(what)
    count = _THINGS_NAMED[task]
    said = [word for word in words if word in about.colours]
    if len(said) != count:
        return TooHard(f'{len(said)} things are named by colour, to {task} takes {count}')
    named: list[Named] = []
    parts = ((reading.a_colour, reading.a_kind), (reading.b_colour, reading.b_kind))
    for colours, kinds in parts[:count]:
        colour, kind = int(np.argmax(colours)), int(np.argmax(kinds))
        certainty *= float(colours[colour]) * float(kinds[kind])
        named.append(Named(about.colours[colour], about.kinds[kind]))
    if sorted(name.colour for name in named) != sorted(said):
        return TooHard(f'heard {" and ".join(map(str, named))}, but said {" and ".join(said)}')
    a, b = [*named, None, None][:2]
    if a is not None and a.kind.is_container:
        return TooHard(f'a {a.kind.name} is not picked up')
    if b is not None and not b.kind.is_container:
        return TooHard(f'a {b.kind.name} is no container')
    return Request(task, a, b, certainty)

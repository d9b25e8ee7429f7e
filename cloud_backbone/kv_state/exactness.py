# SPDX-License-Identifier: Apache-2.0
"""How far a cached state may be from what a full computation of the same tokens gives.

Knows classes and their order; knows no model and measures nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Grade(IntEnum):
    """Classes of exactness, the best first."""

    BIT = 0
    """The same bytes."""
    NUMERIC = 1
    """The same function, summed in another order."""
    APPROXIMATE = 2
    """Another function; its distance was measured, or can be."""
    LOST = 3
    """Not held any more; the tokens have to be computed again."""


@dataclass(frozen=True)
class Exactness:
    """The class of a segment, of an edit, or of an answer."""

    grade: Grade
    kind: str = ''
    """What made it approximate: an edit ('stale', 'partial', 'move' ...) or a cache policy."""
    measured: float | None = None
    """Kullback-Leibler divergence of the next token from the exact one [nat]; None: unknown."""

    @property
    def exact(self) -> bool:
        """Whether a full computation would say the same."""
        return self.grade <= Grade.NUMERIC

    def __str__(self) -> str:
        parts = [self.grade.name, self.kind]
        if self.measured is not None:
            parts.append(f'{self.measured:.3g}')
        return ' '.join(part for part in parts if part)


BIT = Exactness(Grade.BIT)
NUMERIC = Exactness(Grade.NUMERIC)
LOST = Exactness(Grade.LOST)


def approximate(kind: str, measured: float | None = None) -> Exactness:
    """Return the class of something that an edit or a policy of this kind has touched."""
    return Exactness(Grade.APPROXIMATE, kind, measured)


def worst(*classes: Exactness) -> Exactness:
    """Return the least exact of some classes, the first of several; BIT of none."""
    return max(classes, key=lambda one: one.grade, default=BIT)

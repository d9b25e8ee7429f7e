# SPDX-License-Identifier: Apache-2.0
"""A share of cases with the interval in which it lies."""

from collections.abc import Iterable
from dataclasses import dataclass
import math

_Z = 1.959964  # two-sided, 95 %


@dataclass(frozen=True)
class Rate:
    """So many of so many."""

    hits: int
    cases: int

    @classmethod
    def of(cls, hits: Iterable[bool]) -> 'Rate':
        """Count."""
        found = list(hits)
        return cls(sum(found), len(found))

    @property
    def share(self) -> float | None:
        """The share, 0..1; None without cases."""
        return round(self.hits / self.cases, 4) if self.cases else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's interval of 95 %; None without cases."""
        if not self.cases:
            return None
        p, n, z2 = self.hits / self.cases, self.cases, _Z * _Z
        middle = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = _Z / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
        return round(max(0.0, middle - half), 4), round(min(1.0, middle + half), 4)

    def __str__(self) -> str:
        """Say it in a table: '17/20'."""
        return f'{self.hits}/{self.cases}' if self.cases else '-'

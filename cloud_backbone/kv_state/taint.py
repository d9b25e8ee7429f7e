# SPDX-License-Identifier: Apache-2.0
"""Which observation epochs each token was computed under.

A token that the model computes has seen every token before it, so it carries their epochs and
those of its own segment. An edit that leaves later tokens as they are leaves their epochs too:
that is how a token comes to rest on an observation that is gone.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

Epochs = frozenset[int]


@dataclass
class Taint:
    """Runs of tokens that were fed by the same epochs."""

    starts: list[int] = field(default_factory=list)
    """First token of each run, ascending."""
    fed: list[Epochs] = field(default_factory=list)
    """Epochs of each run."""

    def of(self, token: int) -> Epochs:
        """Return the epochs that fed a token; none for one before the first."""
        run = bisect_right(self.starts, token) - 1
        return self.fed[run] if run >= 0 else frozenset()

    def extend(self, first: int, epochs: Epochs) -> None:
        """Say that the tokens from ``first`` on are computed now, under these epochs as well."""
        before = self.of(first - 1)
        self.cut(first)
        self._begin(first, before | epochs)

    def cut(self, tokens: int) -> None:
        """Forget all but the first ``tokens`` tokens."""
        runs = bisect_right(self.starts, tokens - 1)
        del self.starts[runs:], self.fed[runs:]

    def parts(self, first: int, end: int) -> list[tuple[int, Epochs]]:
        """Return the runs within [first, end): their first token, counted from ``first``."""
        inside = [(start, epochs) for start, epochs in zip(self.starts, self.fed, strict=True)
                  if first < start < end]
        return [(start - first, epochs) for start, epochs in [(first, self.of(first)), *inside]]

    def put(self, first: int, parts: list[tuple[int, Epochs]]) -> None:
        """Say that tokens from ``first`` on are those of ``parts``, computed before."""
        self.cut(first)
        for offset, epochs in parts:
            self._begin(first + offset, epochs)

    def all_of(self, tokens: int) -> Epochs:
        """Return every epoch that fed any of the first ``tokens`` tokens."""
        runs = bisect_right(self.starts, tokens - 1)
        return frozenset[int]().union(*self.fed[:runs])

    def rename(self, old: int, new: int) -> None:
        """Say that what was fed by one epoch is as good as fed by another."""
        if old != new:
            self.fed = [epochs - {old} | {new} if old in epochs else epochs
                        for epochs in self.fed]

    def copy(self) -> Taint:
        """Return the same ledger for another state."""
        return Taint(list(self.starts), list(self.fed))

    def _begin(self, start: int, epochs: Epochs) -> None:
        if not self.fed or self.fed[-1] != epochs:
            self.starts.append(start)
            self.fed.append(epochs)

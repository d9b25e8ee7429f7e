# SPDX-License-Identifier: Apache-2.0
"""Shows how far a stage is: a bar on a terminal, a line now and then in a log.

Knows nothing about training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import time

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

LOG_EVERY_S = 20.0
MEMORY = 0.95


class Progress:
    """Reports of all stages of one run."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[Callable[[int, dict[str, float]], None]]:
        """Give a function that reports a finished step and its figures."""
        figures = Figures()
        start = said = time.monotonic()
        columns = (TextColumn('{task.description}'), BarColumn(), TimeRemainingColumn())
        with Bar(*columns, console=self.console, disable=not self.console.is_terminal) as bar:
            task = bar.add_task(name, total=steps)

            def report(step: int, told: dict[str, float]) -> None:
                nonlocal said
                figures.add(told)
                bar.update(task, completed=step + 1, description=f'{name} {figures}')
                now = time.monotonic()
                if not self.console.is_terminal and now - said > LOG_EVERY_S:
                    said = now
                    print(f'{name} {step + 1}/{steps} {now - start:.0f} s {figures}', flush=True)

            yield report
        spent = time.monotonic() - start
        self.console.print(f'{name}: {steps} steps in {spent:.0f} s. {figures}', highlight=False)


class Figures:
    """Running means of reported figures."""

    def __init__(self) -> None:
        self._means: dict[str, float] = {}

    def add(self, told: dict[str, float]) -> None:
        """Take in new values; one that is not a number is left out."""
        for name, value in told.items():
            if value == value:
                old = self._means.get(name, value)
                self._means[name] = MEMORY * old + (1.0 - MEMORY) * value

    def __str__(self) -> str:
        """Return the means in short."""
        return ' '.join(f'{name} {value:.3f}' for name, value in self._means.items())

# SPDX-License-Identifier: Apache-2.0
"""What the episodes of all arms add up to, by the simulator's truth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from tendon.bench_agent.rate import Rate
from tendon.episode import EpisodeResult
from tendon.standstill import median_ms

LASTING = ('slick', 'flat')
"""Mishaps that stay until something is done otherwise: what a failed trial can teach."""
REACT = 'react'
DONE = 'done'

CAPTION = (
    'Fulfilled by the truth of the simulator. Trials: fulfilled within so many of them.\n'
    'Claimed: the robot said that it was done; false: it was not.'
)


@dataclass(frozen=True)
class Run:
    """One episode of one arm."""

    arm: str
    result: EpisodeResult

    @property
    def is_overclaim(self) -> bool:
        """Whether the robot says that it is done while it is not."""
        return self.result.outcome == DONE and not self.result.is_success

    @property
    def is_lasting(self) -> bool:
        """Whether what goes wrong goes wrong every time."""
        return self.result.mishap in LASTING

    def is_done_by(self, trial: int) -> bool:
        """Say whether the task was fulfilled within so many trials."""
        return self.result.is_success and self.result.attempts <= trial


def task_figures(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the figures.

    ``success_ARM`` is over tasks in which nothing goes wrong twice; of react only the first trial
    counts there. ``success_trialN`` is over tasks with a lasting mishap, by the end of trial N.
    ``overclaim_rate`` is over all tasks of react. Each has its interval in ``intervals``, and
    ``by_mishap`` counts all of it. ``standstill_ms_p50`` is of the arm between two motions.
    """
    rates = _rates(runs)
    return {
        **{name: rate.share for name, rate in rates.items()},
        'intervals': {name: rate.interval for name, rate in rates.items()},
        'standstill_ms_p50': {
            arm: median_ms(run.result.standstills_ms for run in runs if run.arm == arm)
            for arm in _arms(runs)
        },
        'episodes': {arm: sum(run.arm == arm for run in runs) for arm in _arms(runs)},
        'by_mishap': {
            mishap: {name: [rate.hits, rate.cases] for name, rate in columns.items()}
            for mishap, columns in _by_mishap(runs).items()
        },
    }


def print_tasks(runs: Sequence[Run], console: Console) -> None:
    """Print one line per mishap and what react failed at."""
    table = Table(title='Tasks that go wrong', caption=CAPTION, caption_justify='left',
                  box=SIMPLE_HEAD)
    columns = _by_mishap(runs)
    table.add_column('mishap')
    for name in next(iter(columns.values()), {}):
        table.add_column(name, justify='right')
    for mishap, rates in columns.items():
        table.add_row(mishap, *map(str, rates.values()))
    console.print(table)
    for name, rate in _rates(runs).items():
        if rate.interval is not None:
            low, high = rate.interval
            console.print(f'{name}: {rate} = {rate.share:.3f}, 95 % in {low:.3f} to {high:.3f}')
    for run in [run for run in runs if run.arm == REACT and not run.result.is_success][:10]:
        one = run.result
        console.print(
            f'[dim]failed: seed {one.seed} {one.kind}, {one.mishap}: "{one.instruction}" -> '
            f'{one.outcome} {one.reason}[/dim]', highlight=False,
        )


def _rates(runs: Sequence[Run]) -> dict[str, Rate]:
    passing = [run for run in runs if not run.is_lasting]
    react = [run for run in runs if run.arm == REACT]
    found = {
        f'success_{arm}': Rate.of(
            run.is_done_by(1) if arm == REACT else run.result.is_success
            for run in passing if run.arm == arm
        )
        for arm in _arms(runs)
    }
    for trial in (1, 2, 3):
        found[f'success_trial{trial}'] = Rate.of(
            run.is_done_by(trial) for run in react if run.is_lasting
        )
    found['overclaim_rate'] = Rate.of(run.is_overclaim for run in react)
    return found


def _by_mishap(runs: Sequence[Run]) -> dict[str, dict[str, Rate]]:
    """Count, by mishap, or task where the thing is absent, and by column."""
    columns: dict[str, tuple[str, Callable[[Run], bool]]] = {}
    for arm in _arms(runs):
        if arm != REACT:
            columns[arm] = arm, lambda run: run.result.is_success
            continue
        for trial in (1, 2, 3):
            columns[f'trial {trial}'] = arm, lambda run, trial=trial: run.is_done_by(trial)  # type: ignore[misc]
        columns['claimed'] = arm, lambda run: run.result.outcome == DONE
        columns['false'] = arm, lambda run: run.is_overclaim
    return {
        mishap: {
            name: Rate.of(
                counts(run) for run in runs if run.arm == arm and _mishap(run) == mishap
            )
            for name, (arm, counts) in columns.items()
        }
        for mishap in dict.fromkeys(map(_mishap, runs))
    }


def _mishap(run: Run) -> str:
    return 'absent' if run.result.kind == 'absent' else run.result.mishap


def _arms(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.arm for run in runs))

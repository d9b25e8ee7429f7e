# SPDX-License-Identifier: Apache-2.0
"""Prints the arms side by side, one line each."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from tendon.bench_agent.race import Log, Race
from tendon.bench_agent.script import Event
from tendon.bench_agent.size import Size

CAPTION = (
    'tokens computed / ms of one core until the first token; median of the\n'
    'turns with this event; restart includes bringing the session back.\n'
    'MiB: keys and values that are held at the end.\n'
    'same: share of the turns with the first token of a full prefill.'
)


def print_race(race: Race, size: Size, console: Console, title: str) -> None:
    """Print tokens and times of each arm by event, over the turns that all arms took."""
    table = Table(
        title=title, caption=CAPTION, caption_justify='left', box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0), pad_edge=False,
    )
    table.add_column('arm', no_wrap=True)
    for event in Event:
        table.add_column(event.value, justify='right', no_wrap=True)
    for heading in ('MiB', 'same'):
        table.add_column(heading, justify='right', no_wrap=True)
    for log in race.logs.values():
        if log.steps:
            table.add_row(*_cells(race, log, size))
    console.print(table)


def by_event(race: Race, log: Log, size: Size) -> dict[str, dict[str, float]]:
    """Return the median tokens and time [ms] of each event's turns, the first turn left out."""
    found = {}
    for event in Event:
        steps = [
            step for turn, step in log.steps.items()
            if 0 < turn < size.race and race.events[turn] is event
        ]
        if steps:
            found[event.value] = {
                'tokens': median(step.computed for step in steps),
                'ttft_ms': round(median(step.cost.cpu_s for step in steps) * 1e3, 2),
                'wall_ms': round(median(step.cost.wall_s for step in steps) * 1e3, 2),
            }
    return found


def _cells(race: Race, log: Log, size: Size) -> list[str]:
    found = by_event(race, log, size)
    last = next(reversed(log.steps.values()))
    agreement = race.agreement(log.name)
    return [
        log.name,
        *(
            f'{found[event.value]["tokens"]:.0f}/{found[event.value]["ttft_ms"]:.0f}'
            if event.value in found else '' for event in Event
        ),
        '' if last.nbytes is None else f'{last.nbytes / 2**20:.0f}',
        '' if agreement is None else f'{agreement:.0%}',
    ]


def print_edits(edits: Mapping[str, Mapping[str, float]], console: Console) -> None:
    """Print what each approximate edit does to the next token."""
    if not edits:
        return
    table = Table(title='Approximate edits against exact ones', box=SIMPLE_HEAD)
    table.add_column('edit', no_wrap=True)
    for heading in ('KL', 'KL p95', 'flips', 'tokens', 'of exact'):
        table.add_column(heading, justify='right')
    for name, row in edits.items():
        table.add_row(
            name, f'{row["kl"]:.4f}', f'{row["kl_p95"]:.4f}', f'{row["flips"]:.1%}',
            f'{row["tokens"]:.0f}', f'{row["tokens_exact"]:.0f}',
        )
    console.print(table)


def print_figures(figures: Mapping[str, Any], names: Sequence[str], console: Console) -> None:
    """Print the main figures one below the other."""
    for name in names:
        value = figures[name]
        console.print(f'{name}: {"not measured" if value is None else value}', highlight=False)


def print_missing(
    missing: Mapping[str, str], race: Race, console: Console
) -> None:
    """Print who did not take part, and who dropped out."""
    for name, remedy in missing.items():
        console.print(f'Not here: {name}; run: {remedy}', markup=False)
    for log in race.logs.values():
        if log.failure:
            console.print(f'Failed: {log.name}: {log.failure}', markup=False)

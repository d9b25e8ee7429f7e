# SPDX-License-Identifier: Apache-2.0
"""Prints the latency budget as a table for people."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from tendon.budget import (
    Row,
    shares_sentence,
    slowest_stage,
    stage_rows,
    total_rows,
    TurnTimes,
)


def print_budget(turns: Sequence[TurnTimes], console: Console) -> None:
    """Print percentiles per stage, the sums against their budget, and the slowest stage."""
    table = Table(title=f'Latency budget over {len(turns)} turns [ms]')
    table.add_column('stage')
    for heading in ('p50', 'p95', 'p99', 'max', 'budget'):
        table.add_column(heading, justify='right')
    for entry in stage_rows(turns):
        table.add_row(*_cells(entry))
    table.add_section()
    for entry in total_rows(turns):
        table.add_row(*_cells(entry), style='bold')
    console.print(table)
    slow = slowest_stage(turns)
    console.print(f'Slowest stage: {slow.name}, {slow.p50:.1f} ms at p50.')
    console.print(shares_sentence(turns))


def _cells(entry: Row) -> list[str]:
    budget = ''
    if entry.budget is not None:
        verdict = 'met' if entry.p50 <= entry.budget else 'over'
        budget = f'{entry.budget:.0f} {verdict}'
    values = (entry.p50, entry.p95, entry.p99, entry.max)
    return [entry.name, *(f'{value:.2f}' for value in values), budget]

# SPDX-License-Identifier: Apache-2.0
"""Prints the comparison as tables for people."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from tendon.bench_kv.quality import Quality
from tendon.bench_kv.workers import Failure

HEADINGS = ('bytes', 'NLL', '±', 'KL', 'top-1', 'asked in', 'after', 'ms')

CAPTION = (
    'bytes: all at 16 bits / resident. NLL: rise, and its standard error.\n'
    'KL, top-1: against the full cache. asked in, after: recall, question in the\n'
    'context or after it. ms: a decoding step.'
)


def label(name: str, share: float | None) -> str:
    """Return how an entry is called: its name, and its share where it was given one."""
    return name if share is None else f'{name} {Fraction(share).limit_denominator(64)}'


def print_entries(
    entries: Sequence[Quality], times: Mapping[tuple[str, float | None], float],
    console: Console, title: str,
) -> None:
    """Print one line per entry, ours above the others, the lightest first."""
    table = Table(
        title=title, caption=CAPTION, caption_justify='left', box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column('method', no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, justify='right', no_wrap=True)
    for ours in (True, False):
        own = [entry for entry in entries if (entry.maker == 'tendon') == ours]
        for entry in sorted(own, key=lambda one: -one.bytes_ratio):
            table.add_row(*_cells(entry, times.get((entry.name, entry.share))))
        table.add_section()
    console.print(table)


def _cells(entry: Quality, time_ms: float | None) -> list[str]:
    return [
        label(entry.name, entry.share), f'{entry.bytes_ratio:.2f}x', f'{entry.nll_rise:+.1%}',
        f'{entry.nll_rise_error:.1%}', f'{entry.kl:.3f}', f'{entry.top1:.3f}',
        f'{entry.recall_in_window:.2f}', f'{entry.recall_outside:.2f}',
        '' if time_ms is None else f'{time_ms:.1f}',
    ]


def print_pooled(pooled: Mapping[str, Mapping[str, Any]], console: Console) -> None:
    """Print one line per method that read several passages."""
    for name, found in pooled.items():
        error = found['nll_rise_error']
        spread = '' if error is None else f' ± {error:.1%}'
        console.print(
            f'{name}: NLL {found["nll_rise"]:+.1%}{spread} over {found["passages"]} passages '
            f'at {found["bytes_ratio"]:.2f}x'
        )


def print_by_length(
    figures: Mapping[int, Mapping[str, float]], console: Console, title: str, form: str
) -> None:
    """Print one line per method, one column per context."""
    if not figures:
        return
    table = Table(title=title)
    table.add_column('method')
    for length in figures:
        table.add_column(str(length), justify='right')
    for name in next(iter(figures.values())):
        table.add_row(name, *(format(column[name], form) for column in figures.values()))
    console.print(table)


def print_notes(
    comparisons: Mapping[str, Any], missing: Mapping[str, str], failures: Sequence[Failure],
    console: Console,
) -> None:
    """Print who is best at equal bytes, and who did not take part."""
    for share, found in comparisons.items():
        if found is not None:
            console.print(
                f'At {share} of the bytes: {found["ours"]} ({found["nll_rise_ours"]:+.1%}) '
                f'against {found["peer"]} ({found["nll_rise_peer"]:+.1%}): {found["nll"]}.'
            )
    for name, remedy in missing.items():
        console.print(f'Not here: {name}; run: {remedy}', markup=False)
    for failure in failures:
        console.print(
            f'Failed: {label(failure.name, failure.share)}: {failure.reason}', markup=False
        )

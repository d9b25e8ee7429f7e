# SPDX-License-Identifier: Apache-2.0
"""The figures of ``tendon bench transport`` for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from rich.console import Console
from rich.table import Table
from tendon.bench_transport.contestant import Round
from tendon.bench_transport.peer_environments import how_to_make

NAMES = ('ours', 'ours_full_size', 'openpi', 'lerobot', 'lerobot_as_shipped')
KEYS = ('ms_p50', 'ms_p99', 'cpu_ms', 'bytes_up', 'bytes_down')
_SENDS = {
    'ours': 'JPEG 128x128',
    'ours_full_size': 'JPEG 640x480',
    'openpi': 'raw 640x480',
    'lerobot': 'raw, no pad',
    'lerobot_as_shipped': 'raw, pad 1/30 s',
}


@dataclass
class Result:
    """What one contestant did; times in ms, bytes per call."""

    rounds: list[Round] = field(default_factory=list)
    bytes_up: int = 0
    bytes_down: int = 0

    @property
    def p50_ms(self) -> float:
        """Median of the rounds' medians."""
        return median(median(each.took_ms) for each in self.rounds)

    @property
    def p99_ms(self) -> float:
        """Over all calls."""
        took = [ms for each in self.rounds for ms in each.took_ms]
        return quantiles(took, n=100)[98]

    @property
    def cpu_ms(self) -> float:
        """Of both ends, per call: median of the rounds."""
        return median(each.cpu_ms for each in self.rounds)


def figures(results: Mapping[str, Result]) -> dict[str, Any]:
    """Return the JSON line's keys; null for what did not run."""
    found: dict[str, Any] = {}
    for name in NAMES:
        result = results.get(name)
        values = [None] * 5 if result is None else [
            round(result.p50_ms, 3), round(result.p99_ms, 3), round(result.cpu_ms, 3),
            result.bytes_up, result.bytes_down,
        ]
        found.update({f'{name}_{key}': value for key, value in zip(KEYS, values, strict=True)})
    for peer in ('openpi', 'lerobot'):
        other = found[f'{peer}_ms_p50']
        found[f'ours_over_{peer}'] = (
            round(found['ours_ms_p50'] / other, 3) if other is not None else None
        )
    return found


def print_table(results: Mapping[str, Result], console: Console) -> None:
    """Print one line each, and how to install what is missing."""
    table = Table('', 'p50 ms', 'p99 ms', 'CPU ms', 'bytes up', 'bytes down', 'image',
                  title='One 480x640x3 image and 7 floats to a 50x7 chunk, on loopback')
    for name in NAMES:
        result = results.get(name)
        if result is None:
            table.add_row(name, *['-'] * 5, _SENDS[name])
            continue
        table.add_row(
            name, f'{result.p50_ms:.2f}', f'{result.p99_ms:.2f}', f'{result.cpu_ms:.2f}',
            str(result.bytes_up), str(result.bytes_down), _SENDS[name],
        )
    console.print(table)
    for peer in ('openpi', 'lerobot'):
        if peer not in results:
            console.print(f'{peer} is not installed. To compare with it:')
            console.print(f'  {how_to_make(peer)}', soft_wrap=True, markup=False)

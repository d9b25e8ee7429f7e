# SPDX-License-Identifier: Apache-2.0
"""Every rule over the same chunks, at two delays; then the real decoder, replanning in motion."""

from __future__ import annotations

from collections.abc import Callable
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from tendon.bench_seams.measures import reaction_s, Smoothness, smoothness
from tendon.bench_seams.merges import act, LEROBOT, lerobot, rtc_mask, sync
from tendon.bench_seams.ours import behind_filter, buffered, filtered
from tendon.bench_seams.replans import replan, Replans, SPREAD_M
from tendon.bench_seams.stream import change, Stream, swing
from tendon.provenance import provenance

Array = NDArray[np.float64]
Rule = Callable[[Stream], Array]

DELAYS_TICKS = (8, 13)
TICKS, CHANGE_TICKS, QUICK_TICKS = 6000, 400, 800
OURS, OURS_FILTERED = 'ours: buffer', 'ours: buffer, filter'
RULES: dict[str, Rule] = {
    'sync': sync,
    **{f'lerobot {name}': lerobot(share) for name, share in LEROBOT.items()},
    'ACT': act,
    'RTC, mask alone': rtc_mask,
    'weighted, our filter': behind_filter(lerobot(LEROBOT['weighted_average'])),
    'ACT, our filter': behind_filter(act),
    'RTC mask, our filter': behind_filter(rtc_mask),
    OURS: buffered,
    OURS_FILTERED: filtered,
}
# Ends of the names of the figures in the JSON line; those of the second delay end in _13.
KEYS = {
    '': OURS_FILTERED, '_buffer': OURS, '_sync': 'sync', '_lerobot_latest': 'lerobot latest_only',
    '_lerobot_weighted': 'lerobot weighted_average', '_lerobot_average': 'lerobot average',
    '_lerobot_conservative': 'lerobot conservative', '_act': 'ACT',
    '_rtc_mask': 'RTC, mask alone', '_lerobot_weighted_filtered': 'weighted, our filter',
    '_act_filtered': 'ACT, our filter', '_rtc_mask_filtered': 'RTC mask, our filter',
}


def run(seed: int = 7, quick: bool = False) -> int:
    """Measure, print a table per delay and, as the last line, one JSON object; return 0.

    Args:
      seed: draws how the chunks disagree.
      quick: few ticks; only shows that it runs.
    """
    console = Console()
    ticks = QUICK_TICKS if quick else TICKS
    figures: dict[str, Any] = {}
    for delay in DELAYS_TICKS:
        table = _table(f'Chunks that disagree by 20 mrad, {delay} ticks late')
        found = {}
        for name, rule in RULES.items():
            stream, turn = swing(delay, ticks, seed), change(delay, CHANGE_TICKS)
            found[name] = smoothness(rule(stream), stream)
            table.add_row(name, *_cells(found[name], reaction_s(rule(turn), turn)))
        console.print(table)
        figures |= _named(found, '' if delay == DELAYS_TICKS[0] else f'_{delay}')
    replans = {name: replan(is_guided, DELAYS_TICKS[0], seed, quick)
               for name, is_guided in (('free', False), ('guided', True))}
    console.print(_replan_table(replans))
    for name, result in replans.items():
        figures[f'replan_jerk_rms_{name}'] = round(result.jerk_rms, 2)
        figures[f'replan_seam_mrad_{name}'] = round(1000 * result.seam_rad, 3)
    print(json.dumps({**figures, 'delays_ticks': list(DELAYS_TICKS), **provenance(seed)}))
    return 0


def _named(found: dict[str, Smoothness], ending: str) -> dict[str, float]:
    """Return the figures of one delay under the names of the JSON line."""
    return {
        f'{field}{part}{ending}': round(getattr(found[rule], field), digits)
        for part, rule in KEYS.items()
        for field, digits in (('jerk_rms', 2), ('track_rmse', 5), ('acceleration_max', 2))
    }


def _table(title: str) -> Table:
    """Return an empty table with the columns of ``_cells``."""
    table = Table('', title=title, box=SIMPLE_HEAD, caption=(
        'jerk: RMS, rad/s^3; acc.: at most, rad/s^2; off: RMS distance to the signal, mrad; '
        'step: of the speed at a seam, at most, rad/s; half: of a sudden change of mind is done '
        'after so many ms'
    ))
    for heading in ('jerk', 'acc.', 'off', 'step', 'half'):
        table.add_column(heading, justify='right')
    return table


def _cells(found: Smoothness, reaction: float) -> list[str]:
    return [
        f'{found.jerk_rms:.1f}', f'{found.acceleration_max:.1f}',
        f'{1000 * found.track_rmse:.1f}', f'{found.seam_step_max:.3f}', f'{1000 * reaction:.0f}',
    ]


def _replan_table(replans: dict[str, Replans]) -> Table:
    table = Table(
        'decoder', 'jerk', 'acc.', 'off', box=SIMPLE_HEAD,
        title=f'Replanning in motion, targets that disagree by {1000 * SPREAD_M:.0f} mm',
        caption='off: a chunk from the one before, where it takes over, RMS, mrad',
    )
    for name, result in replans.items():
        table.add_row(
            name, f'{result.jerk_rms:.1f}', f'{result.acceleration_max:.1f}',
            f'{1000 * result.seam_rad:.2f}',
        )
    return table

# SPDX-License-Identifier: Apache-2.0
"""What a set of episodes adds up to."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table
from tendon.episode import EpisodeResult
from tendon.standstill import median_ms

NEAR_PX = 4.0


def scores(results: Sequence[EpisodeResult]) -> dict[str, float | int | None]:
    """Return the figures that scripts read; None where there is nothing to average.

    ``success_rate`` is over known wordings, ``success_rate_unseen_wording`` over the others;
    grounding, in px of an image of 128 px, and refusals are judged by each task's first plan;
    standstill is of the arm between two motions, while the second one is asked for.
    """
    known = [r.is_success for r in results if r.wording == 'known']
    unseen = [r.is_success for r in results if r.wording == 'unseen']
    errors = [r.grounding_px for r in results if r.grounding_px is not None]
    return {
        'episodes': len(results),
        'success_rate': _share(known),
        'success_rate_unseen_wording': _share(unseen),
        'grounding_px_p50': round(float(np.median(errors)), 3) if errors else None,
        'grounding_within_4px': _share([error <= NEAR_PX for error in errors]),
        'refusal_recall': _share([r.is_first_refused for r in results if r.kind == 'absent']),
        'false_refusal_rate': _share([r.is_first_refused for r in results if r.kind != 'absent']),
        'standstill_ms_p50': median_ms(result.standstills_ms for result in results),
    }


def print_scores(results: Sequence[EpisodeResult], console: Console) -> None:
    """Print success by kind of task and wording, and the sentences of what failed."""
    table = Table(title="Tasks fulfilled, by the simulator's truth")
    for heading in ('task', 'known wording', 'unseen wording', 'attempts', 'turns', 'seconds'):
        table.add_column(heading, justify='left' if heading == 'task' else 'right')
    for kind in dict.fromkeys(result.kind for result in results):
        table.add_row(kind, *_cells([result for result in results if result.kind == kind]))
    table.add_section()
    table.add_row('all', *_cells(results), style='bold')
    console.print(table)
    for failed in [result for result in results if not result.is_success][:12]:
        console.print(
            f'[dim]failed: seed {failed.seed} {failed.kind}: "{failed.instruction}" -> '
            f'{failed.outcome} {failed.reason}[/dim]', highlight=False,
        )


def _cells(results: Sequence[EpisodeResult]) -> list[str]:
    cells = []
    for wording in ('known', 'unseen'):
        hits = [result.is_success for result in results if result.wording == wording]
        cells.append(f'{sum(hits)}/{len(hits)}')
    means = [
        float(np.mean([getattr(result, name) for result in results]))
        for name in ('attempts', 'turns', 'duration_s')
    ]
    return [*cells, *(f'{mean:.1f}' for mean in means)]


def _share(hits: Sequence[bool]) -> float | None:
    return round(float(np.mean(hits)), 4) if hits else None

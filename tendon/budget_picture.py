# SPDX-License-Identifier: Apache-2.0
"""Draws the latency budget: a waterfall of the median turn and the distribution of all turns."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onboard_decoder.latency_budget import (
    BACKBONE_BUDGET_MS,
    BACKBONE_STAGES,
    END_TO_END_BUDGET_MS,
)
from tendon.budget import AFTER_COMMAND, NETWORK_STAGES, stage_rows, TurnTimes

ROBOT, NETWORK, BACKBONE = '#2a9d8f', '#9aa5b1', '#e76f51'
LINE = '#264653'


def draw_budget(turns: Sequence[TurnTimes], path: Path) -> None:
    """Write a PNG with the waterfall on the left and the two distributions on the right."""
    # Imported here: drawing is the last thing a run does, and the import takes a second.
    import matplotlib

    matplotlib.use('Agg')
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(13, 5), width_ratios=(3, 2), layout='constrained'
    )
    _waterfall(left, turns)
    _distribution(right, turns)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def colour_of(stage: str) -> str:
    """Return the colour of the place where a stage happens."""
    if stage in BACKBONE_STAGES:
        return BACKBONE
    return NETWORK if stage in NETWORK_STAGES else ROBOT


def _waterfall(axes: Any, turns: Sequence[TurnTimes]) -> None:
    start = 0.0
    rows = [entry for entry in stage_rows(turns) if entry.name not in AFTER_COMMAND]
    for line, entry in enumerate(rows):
        axes.barh(line, entry.p50, left=start, color=colour_of(entry.name), height=0.7)
        axes.text(start + entry.p50 + 2, line, f'{entry.p50:.1f}', va='center', fontsize=9)
        start += entry.p50
    axes.axvline(END_TO_END_BUDGET_MS, color=LINE, linestyle='--', linewidth=1)
    axes.set_yticks(range(len(rows)), [entry.name for entry in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, max(END_TO_END_BUDGET_MS * 1.08, start * 1.1))
    axes.set_xlabel('ms since the image was taken (median of each stage)')
    axes.set_title('From image to command', loc='left')
    for label, colour in (('robot', ROBOT), ('network', NETWORK), ('backbone', BACKBONE)):
        axes.bar(0, 0, color=colour, label=label)
    axes.legend(loc='upper right', bbox_to_anchor=(0.9, 1), frameon=False)
    axes.spines[['top', 'right']].set_visible(False)


def _distribution(axes: Any, turns: Sequence[TurnTimes]) -> None:
    series = (
        ('backbone', [turn.backbone_ms for turn in turns], BACKBONE_BUDGET_MS, BACKBONE),
        ('end to end', [turn.wall_ms for turn in turns], END_TO_END_BUDGET_MS, LINE),
    )
    share = (np.arange(len(turns)) + 1) / len(turns)
    for label, values, budget, colour in series:
        axes.step(np.sort(values), share, where='post', color=colour, label=label)
        axes.axvline(budget, color=colour, linestyle='--', linewidth=1)
        axes.text(budget, 0.02, f' {budget:.0f} ms', color=colour, fontsize=9)
    axes.set_xlim(0, 1.05 * max(END_TO_END_BUDGET_MS * 1.1, *(turn.wall_ms for turn in turns)))
    axes.set_ylim(0, 1.02)
    axes.set_xlabel('ms')
    axes.set_ylabel('share of turns')
    axes.set_title(f'{len(turns)} turns', loc='left')
    axes.legend(loc='best', frameon=False)
    axes.spines[['top', 'right']].set_visible(False)

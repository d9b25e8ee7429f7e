# SPDX-License-Identifier: Apache-2.0
"""Draws quality against bytes: rise of the likelihood on the left, recall on the right."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tendon.bench_kv.quality import Quality

OURS, PEERS, GRID = '#e76f51', '#9aa5b1', '#e3e7ea'
MARKS = 'osD^vPX*<>hp'
LEAST_RISE = 1e-3
"""Smaller rises are drawn here: the axis is logarithmic."""


def draw_entries(entries: Sequence[Quality], path: Path, title: str) -> None:
    """Write a PNG."""
    # Imported here: drawing is the last thing a run does, and the import takes a second.
    import matplotlib

    matplotlib.use('Agg')
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(15, 5.5), layout='constrained')
    _draw(axes[0], entries, [max(entry.nll_rise, LEAST_RISE) for entry in entries])
    _draw(axes[1], entries, [entry.recall_in_window for entry in entries])
    _draw(axes[2], entries, [entry.recall_outside for entry in entries])
    axes[0].set_yscale('log')
    axes[0].set_title('Rise of the negative log-likelihood', loc='left')
    axes[0].axhline(0.02, color=GRID, linestyle='--')
    axes[1].set_title('Recall, question in the context', loc='left')
    axes[2].set_title('Recall, question afterwards', loc='left')
    figure.suptitle(title)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc='outside right center', frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw(axes: Any, entries: Sequence[Quality], heights: Sequence[float]) -> None:
    names = list(dict.fromkeys(entry.name for entry in entries))
    for number, name in enumerate(names):
        points = sorted(
            (entry.bytes_ratio, height)
            for entry, height in zip(entries, heights, strict=True) if entry.name == name
        )
        ours = next(entry.maker for entry in entries if entry.name == name) == 'tendon'
        axes.plot(
            *zip(*points, strict=True), marker=MARKS[number % len(MARKS)], markersize=6,
            color=OURS if ours else PEERS, linestyle='-' if ours else ':', linewidth=1,
            alpha=0.9, label=name,
        )
    axes.set_xscale('log', base=2)
    axes.set_xlabel('bytes at 16 bits / resident bytes')
    axes.grid(color=GRID, linewidth=0.5)
    axes.spines[['top', 'right']].set_visible(False)

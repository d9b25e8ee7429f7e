# SPDX-License-Identifier: Apache-2.0
"""Draws a session: tokens computed and time to the first token at each turn, and the edits."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tendon.bench_agent.race import Race
from tendon.bench_agent.script import Event

GRID = '#e3e7ea'
LEAST_KL = 1e-5
"""Smaller divergences are drawn as none: the axis is logarithmic."""
COLOURS = {
    'exact': '#e76f51', 'approximate': '#f4a261', 're-prefill': '#264653',
    'DynamicCache': '#9aa5b1', 'llama.cpp': '#2a9d8f', 'vLLM': '#8e6bbf',
}
MARKS = {
    Event.MEND: 'v', Event.LESSON: '^', Event.COMPACTION: 's', Event.RESTART: 'X',
}


def draw_race(
    race: Race, edits: Mapping[str, Mapping[str, float]], path: Path, title: str
) -> None:
    """Write a PNG."""
    # Imported here: drawing is the last thing a run does, and the import takes a second.
    import matplotlib

    matplotlib.use('Agg')
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter

    figure, axes = pyplot.subplots(1, 3, figsize=(16, 5.2), layout='constrained')
    for log in race.logs.values():
        turns = sorted(log.steps)
        colour = COLOURS.get(log.name, '#555555')
        style = {'color': colour, 'linewidth': 1, 'label': log.name}
        axes[0].plot(turns, [log.steps[turn].computed for turn in turns], **style)
        axes[1].plot(turns, [log.steps[turn].cost.cpu_s for turn in turns], **style)
    _mark_events(axes[0], race)
    _finish(axes[0], 'Tokens computed', 'turn')
    _finish(axes[1], 'Time of one core to the first token [s]', 'turn')
    for one in axes[:2]:
        one.set_yscale('log')
        for side in (one.yaxis.set_major_formatter, one.yaxis.set_minor_formatter):
            side(FuncFormatter(lambda value, _: f'{value:g}'))
    _draw_edits(axes[2], edits)
    figure.suptitle(title)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc='outside lower center', frameon=False, ncols=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _mark_events(axes: Any, race: Race) -> None:
    steps = race.logs['exact'].steps if 'exact' in race.logs else {}
    for event, mark in MARKS.items():
        turns = [turn for turn in steps if race.events[turn] is event]
        axes.plot(
            turns, [steps[turn].computed for turn in turns], linestyle='', marker=mark,
            color=COLOURS['exact'], markersize=5, label=event.value,
        )


def _draw_edits(axes: Any, edits: Mapping[str, Mapping[str, float]]) -> None:
    names = list(edits)
    places = range(len(names))
    axes.barh(
        places, [edits[name]['kl'] for name in names], color=COLOURS['approximate'],
    )
    for place, name in zip(places, names, strict=True):
        share = edits[name]['flips']
        said = f' {share:.0%} of the tokens change' if share else ''
        axes.text(LEAST_KL, place, said, va='center', fontsize=8)
    axes.set_yticks(places, names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale('log')
    axes.set_xlim(left=LEAST_KL)
    _finish(axes, 'Approximate edits: divergence of the next token', 'KL [nat]')


def _finish(axes: Any, title: str, label: str) -> None:
    axes.set_title(title, loc='left')
    axes.set_xlabel(label)
    axes.grid(color=GRID, linewidth=0.5)
    axes.spines[['top', 'right']].set_visible(False)

# SPDX-License-Identifier: Apache-2.0
"""Turns the traces of a run into everything that people and scripts look at."""

from collections.abc import Sequence
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from tendon.budget import summary, TurnTimes
from tendon.budget_page import write_page
from tendon.budget_picture import draw_budget
from tendon.budget_table import print_budget
from tendon.chrome_trace import OffsetAt, write_chrome_trace


def report(
    turns: Sequence[TurnTimes], out: Path, console: Console, note: str,
    more: dict[str, Any] | None = None, offset_at: OffsetAt = lambda time_ns: None,
) -> dict[str, Any]:
    """Print the table and write picture, page, JSON and Chrome trace into ``out``.

    Args:
      turns: at least one.
      out: folder.
      console: where the table goes.
      note: one sentence for the page: how it was measured.
      more: further figures for the JSON file.
      offset_at: for the Chrome trace, see ``write_chrome_trace``.

    Returns:
      All figures.
    """
    out.mkdir(parents=True, exist_ok=True)
    print_budget(turns, console)
    draw_budget(turns, out / 'budget.png')
    write_page(turns, out / 'budget.png', out / 'budget.html', 'Latency budget', note)
    write_chrome_trace(turns, out / 'trace.json', offset_at)
    figures = {**summary(turns), **(more or {})}
    (out / 'budget.json').write_text(json.dumps(figures, indent=2) + '\n')
    console.print(
        f'Written to {out}: budget.png, budget.html, budget.json, trace.json (open in Perfetto)',
        highlight=False, soft_wrap=True,
    )
    return figures

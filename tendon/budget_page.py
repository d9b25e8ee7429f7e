# SPDX-License-Identifier: Apache-2.0
"""Writes the latency budget as one self-contained HTML page."""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from tendon.budget import (
    Row,
    shares_sentence,
    slowest_stage,
    stage_rows,
    total_rows,
    TurnTimes,
)

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem;
       padding: 0 1rem; }
table { border-collapse: collapse; } td, th { padding: .2rem .9rem; text-align: right; }
td:first-child, th:first-child { text-align: left; } tr.sum td { font-weight: 600; }
th { border-bottom: 1px solid #888; } img { max-width: 100%; } .over { color: #b3361b; }
"""


def write_page(
    turns: Sequence[TurnTimes], picture: Path, path: Path, title: str, note: str
) -> None:
    """Write the page; ``picture`` is a PNG that goes into it, ``note`` tells how it came about."""
    image = base64.b64encode(picture.read_bytes()).decode()
    slow = slowest_stage(turns)
    lines = [_line(entry, '') for entry in stage_rows(turns)]
    lines += [_line(entry, 'sum') for entry in total_rows(turns)]
    path.write_text(f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>
<body><h1>{escape(title)}</h1><p>{escape(note)}</p>
<p>{len(turns)} turns. Slowest stage: {slow.name}, {slow.p50:.1f} ms at p50.
{shares_sentence(turns)}</p>
<img alt="Waterfall of the median turn and distribution of all turns"
     src="data:image/png;base64,{image}">
<table><tr><th>stage [ms]</th><th>p50</th><th>p95</th><th>p99</th><th>max</th><th>budget</th></tr>
{chr(10).join(lines)}
</table></body></html>
""")


def _line(entry: Row, kind: str) -> str:
    values = ''.join(f'<td>{value:.2f}</td>' for value in (
        entry.p50, entry.p95, entry.p99, entry.max,
    ))
    budget = '' if entry.budget is None else f'{entry.budget:.0f}'
    over = entry.budget is not None and entry.p50 > entry.budget
    return (
        f'<tr class="{kind}{" over" if over else ""}"><td>{escape(entry.name)}</td>'
        f'{values}<td>{budget}</td></tr>'
    )

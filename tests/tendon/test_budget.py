# SPDX-License-Identifier: Apache-2.0
"""Promises of the latency budget and its reports."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from tendon.budget import (
    read_traces,
    shares_over,
    slowest_stage,
    stage_rows,
    summary,
    TurnTimes,
)
from tendon.budget_page import write_page
from tendon.budget_picture import draw_budget
from tendon.budget_table import print_budget
from tendon.chrome_trace import placed, write_chrome_trace
from tendon.clock_offset import Offset

STAGES_MS = {'capture': 4.0, 'uplink': 1.0, 'queue': 1.0, 'vision': 8.0, 'prefill': 10.0,
             'decode': 50.0, 'downlink': 1.0, 'publish': 5.0, 'motion_onset': 30.0}


def turns(count: int) -> list[TurnTimes]:
    """Return turns whose decode stage grows by a millisecond each; 0.5 ms stay unexplained."""
    return [
        TurnTimes(f't{i}', 1000.0 * i, {**STAGES_MS, 'decode': 50.0 + i}, 80.5 + i)
        for i in range(count)
    ]


def test_sums_count_each_stage_once_and_leave_motion_out() -> None:
    """Residual is the wall clock minus the stages up to the command."""
    turn = turns(1)[0]
    assert turn.backbone_ms == pytest.approx(69.0)
    assert turn.network_ms == pytest.approx(2.0)
    assert turn.residual_ms == pytest.approx(0.5)


def test_summary_has_the_keys_that_scripts_read() -> None:
    """Keys and percentiles of the JSON line."""
    figures = summary(turns(11))
    assert figures['backbone_ms_p50'] == pytest.approx(74.0)
    assert figures['e2e_ms_p50'] == pytest.approx(85.5)
    assert figures['residual_ms_p50'] == pytest.approx(0.5)
    assert figures['slowest_stage'] == 'decode'


def test_rows_follow_the_data_path() -> None:
    """Stages are listed in the order in which they happen."""
    assert [row.name for row in stage_rows(turns(2))] == list(STAGES_MS)
    assert slowest_stage(turns(2)).name == 'decode'


def test_traces_of_turns_without_a_command_are_left_out(tmp_path: Path) -> None:
    """A turn that was cancelled or refused has no end and is not averaged in."""
    full = {'turn_id': 'a', 'start_ns': 5_000_000, 'stages_ns': {'decode': 7_000_000},
            'wall_ns': 8_000_000}
    path = tmp_path / 'traces.jsonl'
    path.write_text(json.dumps(full) + '\n' + json.dumps({**full, 'wall_ns': None}) + '\n')
    assert read_traces(path) == [TurnTimes('a', 5.0, {'decode': 7.0}, 8.0)]


def test_reports_are_written(tmp_path: Path) -> None:
    """Table, picture, page and trace carry every stage."""
    text = io.StringIO()
    print_budget(turns(5), Console(file=text, width=100))
    draw_budget(turns(5), tmp_path / 'budget.png')
    write_page(turns(5), tmp_path / 'budget.png', tmp_path / 'budget.html', 'Budget', 'a test')
    write_chrome_trace(turns(5), tmp_path / 'trace.json')
    page = (tmp_path / 'budget.html').read_text()
    events = json.loads((tmp_path / 'trace.json').read_text())['traceEvents']
    assert all(stage in page and stage in text.getvalue() for stage in STAGES_MS)
    assert (tmp_path / 'budget.png').read_bytes().startswith(b'\x89PNG')
    assert sum(event['ph'] == 'X' for event in events) == 5 * len(STAGES_MS)


def test_shares_count_the_turns_over_each_line() -> None:
    """A median hides what a bad link does to one turn in ten."""
    some = [TurnTimes('t', 0.0, {'decode': decode}, wall) for decode, wall in (
        (159.0, 249.0), (161.0, 249.0), (161.0, 251.0), (10.0, 900.0),
    )]
    assert shares_over(some) == (0.5, 0.5)
    figures = summary(some)
    assert (figures['over_160_ms_share'], figures['over_250_ms_share']) == (0.5, 0.5)


def test_a_fast_backbone_does_not_hide_a_slow_link() -> None:
    """Turns are also counted as if the backbone had taken all of its 160 ms."""
    some = [TurnTimes('t', 0.0, {'decode': 60.0, 'uplink': up}, 60.0 + up) for up in (80.0, 95.0)]
    figures = summary(some)
    assert figures['over_250_ms_share'] == 0.0
    assert figures['over_250_ms_share_at_160'] == 0.5
    assert figures['e2e_ms_p50_at_160'] == pytest.approx(247.5)


def arrived(at_ms: float) -> TurnTimes:
    """Return a turn sent at 104 ms of the robot, 10 ms of network, 20 ms of backbone."""
    stages = {'capture': 4.0, 'uplink': 5.0, 'decode': 20.0, 'downlink': 5.0, 'publish': 1.0}
    return TurnTimes('t', 100.0, stages, 35.0, at_ms)


def test_the_backbone_is_drawn_where_it_worked() -> None:
    """With the offset of the clocks, the way up and the way down are told apart."""
    stages = placed(arrived(5106.0), Offset(5_000_000_000, 1_000_000))
    assert (stages['uplink'], stages['downlink']) == (2.0, 8.0)
    assert sum(stages.values()) == 35.0


@pytest.mark.parametrize(('at_ms', 'up_ms'), [(5090.0, 0.0), (5150.0, 10.0)])
def test_an_uncertain_offset_never_gives_a_negative_way(at_ms: float, up_ms: float) -> None:
    """The bound may be wider than the way is long."""
    stages = placed(arrived(at_ms), Offset(5_000_000_000, 50_000_000))
    assert (stages['uplink'], stages['downlink']) == (up_ms, 10.0 - up_ms)


def test_without_an_offset_the_network_is_halved(tmp_path: Path) -> None:
    """And the two machines are still drawn apart."""
    assert placed(arrived(5106.0), None) == arrived(5106.0).stages_ms
    write_chrome_trace([arrived(5106.0)], tmp_path / 'trace.json')
    events = json.loads((tmp_path / 'trace.json').read_text())['traceEvents']
    machines = {event['name']: event['pid'] for event in events if event['ph'] == 'X'}
    assert machines['decode'] != machines['uplink'] == machines['publish']

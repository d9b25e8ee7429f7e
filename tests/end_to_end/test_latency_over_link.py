# SPDX-License-Identifier: Apache-2.0
"""Promises of the latency budget over an emulated link: the whole system, in real time."""

import json
from pathlib import Path
import subprocess
import sys

import pytest

from tests.tendon.link_emulator.places import ROOT, why_not

WHY_NOT = why_not()
pytestmark = [
    pytest.mark.netns, pytest.mark.ros, pytest.mark.slow,
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or 'possible here'),
]


def test_a_robot_works_over_a_link_that_goes_away(tmp_path: Path) -> None:
    """Turns are measured, an outage in mid-motion starves no tick, and the task is finished."""
    done = subprocess.run(
        [sys.executable, '-m', 'tendon.cli', 'bench', 'latency', '--link', 'outage',
         '--turns', '2', '--out', str(tmp_path)],
        capture_output=True, text=True, timeout=240, cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.strip().splitlines()[-1])
    assert figures['starved_ticks'] == 0
    assert figures['outages_noticed'] == len(figures['back_after_s']) == 2
    assert sum(figures['tasks_to_the_end'].values()) == 2
    assert figures['residual_ms_max'] < 2.0
    # Both ways of the link are in every turn.
    profile = figures['link_profile']
    fixed_ms = profile['up']['delay_ms'] + profile['down']['delay_ms']
    stages = figures['stages_ms_p50']
    assert stages['uplink'] + stages['downlink'] >= fixed_ms
    assert figures['ping_ms_p50'] >= fixed_ms
    assert figures['link_packets']['robot']['cut'] > 0
    # One machine: the clocks are the same, and the estimate must know it.
    assert abs(figures['clock_offset_ms']) <= figures['clock_bound_ms']
    for name in ('budget.png', 'budget.html', 'budget.json', 'trace.json'):
        assert (tmp_path / name).stat().st_size > 0

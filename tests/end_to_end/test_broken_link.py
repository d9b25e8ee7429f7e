# SPDX-License-Identifier: Apache-2.0
"""Promises about a backbone that falls silent in mid-motion: real processes, real time."""

import json

import pytest

pytest.importorskip('rclpy')

from tendon.bench_faults.run import run  # only after the check above

pytestmark = [pytest.mark.slow, pytest.mark.ros]


@pytest.mark.parametrize(('fault', 'key'), [
    ('server frozen', 'frozen_detect_ms'), ('half-open socket', 'half_open_hold_ms'),
])
def test_a_silent_server_is_seen_long_before_tcp_would_and_the_task_is_done(
    tmp_path, capsys, fault, key
):
    """Seen while the connection is still open; no step is begun meanwhile; done afterwards."""
    assert run(repetitions=1, out=tmp_path, only=fault) == 0

    figures = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    broken_ms = 3000.0
    assert 0.0 < figures[key] < broken_ms
    assert figures['steps_begun_meanwhile'] == 0
    assert figures['faults'][fault]['done'] == 1
    lines = (tmp_path / 'transcript.jsonl').read_text(encoding='utf-8').splitlines()
    events = [json.loads(line) for line in lines]
    silences = [event for event in events if event.get('fault') == 'server_silent']
    assert silences and 'has said nothing for' in silences[0]['detail']

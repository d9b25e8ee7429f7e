# SPDX-License-Identifier: Apache-2.0
"""The bench of the command loop's rate runs the whole system and reports what the loop says."""

import json

from onboard_decoder.manifest_yaml import load_manifest
import pytest
from tendon.bench_rate.run import run
from tendon.bench_rate.three_cameras import write_manifest
from tendon.errors import BadRequest


def test_the_robot_has_three_cameras(tmp_path):
    """The manifest is the shipped one with two more cameras, and loads."""
    manifest = load_manifest(write_manifest(tmp_path))

    assert [camera.name for camera in manifest.cameras] == ['front', 'side', 'wrist']
    assert manifest.joints == load_manifest('tendon_arm').joints


def test_a_short_run_keeps_the_rate(tmp_path, capsys):
    """With three cameras and a busy core no tick comes in a burst, and what is late is counted."""
    assert run(minutes=0.1, out=tmp_path) == 0

    figures = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert figures['cameras'] == 3
    assert figures['ticks'] > 100
    due = (figures['ticks'] + figures['missed_ticks']) / 50
    assert figures['rate_hz'] < 50.1
    assert figures['ticks'] / figures['rate_hz'] == pytest.approx(due, rel=0.02)
    assert figures['tasks'] >= 1


def test_no_time_is_refused(tmp_path):
    """A run of no length is refused before anything starts."""
    with pytest.raises(BadRequest, match='minutes is 0'):
        run(minutes=0, out=tmp_path)

# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
from onboard_decoder.manifest import Manifest
import pytest
from tendon.bench_seams.measures import reaction_s, smoothness
from tendon.bench_seams.merges import act, LEROBOT, lerobot, soft_mask, sync
from tendon.bench_seams.ours import buffered, filtered, swinging_arm
from tendon.bench_seams.run import RULES, run
from tendon.bench_seams.stream import change, HORIZON, swing, swinging

SHORT = 1500


@pytest.fixture(scope='module')
def stream():
    """Chunks that disagree, 8 ticks late."""
    return swing(8, SHORT, seed=3)


@pytest.mark.parametrize(('rule', 'jerk_rms'), [
    (lerobot(LEROBOT['latest_only']), 3223), (lerobot(LEROBOT['weighted_average']), 1968),
    (lerobot(LEROBOT['average']), 1315), (lerobot(LEROBOT['conservative']), 1050),
    (act, 700), (sync, 4795),
])
def test_the_rules_of_others_come_out_as_their_formulas_do(stream, rule, jerk_rms):
    """Each within a tenth of what another simulation of the same formulas gave."""
    assert smoothness(rule(stream), stream).jerk_rms == pytest.approx(jerk_rms, rel=0.1)


@pytest.mark.parametrize('delay', [8, 13])
@pytest.mark.parametrize('rule', [buffered, filtered])
def test_our_seams_are_smooth_and_lead_no_farther_from_the_signal(delay, rule):
    """At most 80 rad/s^3, and not more than 5 mrad farther off than lerobot's average."""
    stream = swing(delay, SHORT, seed=3)

    ours = smoothness(rule(stream), stream)
    theirs = smoothness(lerobot(LEROBOT['weighted_average'])(stream), stream)

    assert ours.jerk_rms <= 80
    assert ours.track_rmse <= theirs.track_rmse + 0.005


def test_what_the_filter_lets_out_obeys_the_limits_of_the_arm(stream):
    """Speed, acceleration and jerk of every tick."""
    path, arm = filtered(stream), swinging_arm()
    assert isinstance(arm, Manifest)
    for order, limit in ((1, 'max_velocity'), (2, 'max_acceleration'), (3, 'max_jerk')):
        rate = np.abs(np.diff(path, order, axis=0)).max() / arm.control_period_s**order
        assert rate <= arm.column(limit)[0] * (1 + 1e-6)


@pytest.mark.parametrize('name', RULES)
def test_chunks_that_agree_are_played_as_they_are(name):
    """Without disagreement every rule but waiting gives the signal, once it has got there."""
    clean = change(8, 300)

    path = RULES[name](clean)

    assert np.allclose(path[-1], clean.wanted[-1], atol=2e-3)
    assert 0 < reaction_s(path, clean) < 2


def test_the_mask_holds_the_old_chunk_first_and_the_new_one_last():
    """1 while the answer is under way, falling, 0 where the old chunk has no rows."""
    mask = soft_mask(delay=8, executed=8)

    assert (mask[:8] == 1).all() and (mask[HORIZON - 8:] == 0).all()
    assert (np.diff(mask) <= 0).all()


def test_the_signal_is_the_one_that_is_stated():
    """0.5 rad at 0.3 Hz: jerk of about 2.4 rad/s^3."""
    jerk = np.diff(swinging(np.arange(1000)), 3, axis=0) / 0.02**3

    assert np.sqrt((jerk**2).mean()) == pytest.approx(2.37, rel=0.02)


def test_the_command_ends_with_one_json_object(capsys):
    """The figures that are compared, of both delays, and of the real decoder."""
    assert run(seed=7, quick=True) == 0

    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    for key in ('jerk_rms', 'jerk_rms_lerobot_weighted', 'jerk_rms_act', 'track_rmse'):
        assert figures[key] > 0 and figures[f'{key}_13'] > 0
    assert figures['jerk_rms'] <= 80 < figures['jerk_rms_act']
    assert figures['jerk_rms_act'] < figures['jerk_rms_lerobot_weighted']
    assert figures['replan_jerk_rms_guided'] <= figures['replan_jerk_rms_free'] * 1.05

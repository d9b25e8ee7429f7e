# SPDX-License-Identifier: Apache-2.0
from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
from onboard_decoder.chunk import Target
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.safety_filter import SafetyFilter
import pytest

MANIFEST = load_manifest('tendon_arm')
KINEMATICS = ForwardKinematics(MANIFEST)
PERIOD_S = MANIFEST.control_period_s
N = len(MANIFEST.joints)


def fresh_filter():
    """Return a filter that stands at the home pose."""
    safety = SafetyFilter(MANIFEST, KINEMATICS, 12.0)
    safety.reset(MANIFEST.home)
    return safety


def target(positions, velocities=None):
    """Return a target with zero velocities unless given."""
    zeros = np.zeros(len(positions))
    return Target(np.asarray(positions, float), zeros if velocities is None else velocities, 0)


def run(safety, targets):
    """Return the commanded positions, start included, (ticks + 1, joints)."""
    start = safety.motion.positions
    return np.array([start] + [safety.step(entry).positions for entry in targets])


def assert_inside_limits(commands):
    """Differences of the commands obey the manifest's limits."""
    for order, limit in ((1, 'max_velocity'), (2, 'max_acceleration'), (3, 'max_jerk')):
        still = np.repeat(commands[:1], order, axis=0)
        rate = np.abs(np.diff(np.concatenate([still, commands]), order, axis=0)) / PERIOD_S**order
        assert (rate <= MANIFEST.column(limit) * (1 + 1e-6) + 1e-6).all()
    assert np.isfinite(commands).all()
    assert (commands >= MANIFEST.column('lower') - 1e-5).all()
    assert (commands <= MANIFEST.column('upper') + 1e-5).all()


VALUES = st.one_of(
    st.floats(-4, 4), st.sampled_from([float('nan'), float('inf'), -float('inf'), 1e9, 0.0])
)
ROWS = st.lists(VALUES, min_size=N, max_size=N)
TARGETS = st.one_of(
    st.none(),
    st.builds(lambda p, v: target(p, np.array(v)), ROWS, ROWS),
    st.builds(target, st.lists(VALUES, min_size=0, max_size=N + 2)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TARGETS, st.integers(1, 25)), min_size=1, max_size=8))
def test_every_limit_holds_whatever_comes_in(pieces):
    """No input makes a command exceed position, velocity, acceleration or jerk, or be NaN."""
    targets = [entry for entry, count in pieces for _ in range(count)]

    commands = run(fresh_filter(), targets)

    assert_inside_limits(commands)


@settings(max_examples=40, deadline=None)
@given(st.lists(
    st.lists(st.floats(-1.5, 1.5), min_size=N, max_size=N), min_size=1, max_size=6
))
def test_the_tool_stays_in_the_workspace(offsets):
    """Targets around home, in and out of the box: the arm's rest poses are inside."""
    safety = fresh_filter()

    for offset in offsets:
        run(safety, [target(MANIFEST.home + np.array(offset))] * 30)
        run(safety, [None] * 60)

        tool = KINEMATICS.tool_position(safety.motion.positions)
        assert (tool >= np.array(MANIFEST.workspace.lower_m) - 1e-3).all()
        assert (tool <= np.array(MANIFEST.workspace.upper_m) + 1e-3).all()
        assert safety.is_at_rest


def test_the_first_command_is_the_measured_pose():
    """Activation moves nothing."""
    measured = MANIFEST.home + 0.01
    measured[MANIFEST.gripper_index] = 0.0424  # a little beyond its limit
    safety = SafetyFilter(MANIFEST, KINEMATICS, 12.0)

    assert np.array_equal(safety.reset(measured).positions, measured)
    assert np.allclose(safety.step(None).positions, measured, atol=1e-12)


def test_a_smooth_path_is_followed_closely():
    """A path inside the limits comes out nearly as it went in."""
    safety = fresh_filter()
    times = np.arange(150) * PERIOD_S
    swing = 0.15 * (1 - np.cos(2.0 * times))
    path = MANIFEST.home + swing[:, None] * (np.arange(N) < N - 1)
    speeds = np.gradient(path, PERIOD_S, axis=0)

    commands = run(
        safety, [target(p, v) for p, v in zip(path, speeds, strict=True)]
    )[1:]

    assert np.abs(commands - path).max() < 0.002
    assert safety.counts.total() == 0


def test_noise_on_a_path_does_not_lead_away_from_it():
    """Half a milliradian of noise from tick to tick stays some milliradians."""
    safety = fresh_filter()
    noise = np.random.default_rng(0).normal(0, 5e-4, (150, N))
    swing = 0.15 * (1 - np.cos(2.0 * np.arange(150) * PERIOD_S))
    path = MANIFEST.home + swing[:, None] * (np.arange(N) < N - 1)
    speeds = np.gradient(path + noise, PERIOD_S, axis=0)

    commands = run(safety, [target(p, v) for p, v in zip(path + noise, speeds, strict=True)])

    assert np.abs(commands[1:] - path).max() < 0.006


@pytest.mark.parametrize('bad', [float('nan'), float('inf')])
def test_what_is_not_finite_is_counted_and_brakes(bad):
    """One bad value among good ones is enough."""
    safety = fresh_filter()
    positions = MANIFEST.home.copy()
    positions[3] = bad

    run(safety, [target(positions)])

    assert safety.counts['not_finite'] == 1
    assert np.allclose(safety.motion.positions, MANIFEST.home)


def test_braking_ends_at_rest_and_stays():
    """From full speed to standing still, within the limits, and no way back."""
    safety = fresh_filter()
    away = MANIFEST.home.copy()
    away[0] += 1.0
    moving = run(safety, [target(away)] * 20)
    assert not safety.is_at_rest

    braking = run(safety, [None] * 60)

    assert_inside_limits(np.concatenate([moving, braking[1:]]))
    assert safety.is_at_rest
    assert np.array_equal(braking[-1], braking[-2])


def test_a_target_outside_the_box_is_held():
    """A target below the table moves nothing and is counted."""
    safety = fresh_filter()
    low = MANIFEST.home.copy()
    low[1] += 1.2

    assert KINEMATICS.tool_position(low)[2] < MANIFEST.workspace.lower_m[2]
    commands = run(safety, [target(low)] * 10)

    assert np.allclose(commands, MANIFEST.home)
    assert safety.counts['workspace'] == 10

# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
from onboard_decoder.chunk import Target
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest import Gripper
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.safety_filter import SafetyFilter
import pytest

from tests.onboard_decoder.gantry import gantry
from tests.onboard_decoder.servo_world import assert_within_limits, outside_m, ServoWorld

BOX_M = 2e-4  # what the tool may be outside of the workspace by rounding
ARM = load_manifest('tendon_arm')


@pytest.fixture(scope='module', params=['tendon_arm', 'gantry'])
def robot(request, tmp_path_factory):
    """Two robots: turning joints of the shipped arm, sliding ones of another."""
    return ARM if request.param == 'tendon_arm' else gantry(tmp_path_factory.mktemp('gantry'))


def smooth(rng, manifest, now, rows):
    """A swing of every joint about where it is."""
    times = np.arange(rows)[:, None] * manifest.control_period_s
    width = 0.2 * (manifest.column('upper') - manifest.column('lower'))
    return now + np.sin(times * rng.uniform(1, 4)) * rng.uniform(-1, 1, len(now)) * width


def jump(rng, manifest, now, rows):
    """Still, then anywhere at once."""
    chunk = np.tile(now, (rows, 1))
    chunk[int(rng.integers(0, rows)):] = rng.uniform(
        manifest.column('lower'), manifest.column('upper'))
    return chunk


def tenfold(rng, manifest, now, rows):
    """One row ten times too large."""
    chunk = smooth(rng, manifest, now, rows)
    chunk[int(rng.integers(0, rows))] *= 10
    return chunk


def swapped(rng, manifest, now, rows):
    """Joints in another order."""
    return rng.permutation(smooth(rng, manifest, now, rows), axis=1)


def degrees(rng, manifest, now, rows):
    """Another unit."""
    return np.degrees(smooth(rng, manifest, now, rows))


def noise(rng, manifest, now, rows):
    """Anything within the limits, anew at each row."""
    return rng.uniform(manifest.column('lower'), manifest.column('upper'), (rows, len(now)))


def huge(rng, manifest, now, rows):
    """Numbers that no arm has."""
    return rng.normal(0, 1e6, (rows, len(now)))


CHUNKS = (smooth, jump, tenfold, swapped, degrees, noise, huge)
EVENTS = ('offer', 'offer', 'offer', 'offer', 'clear', 'stop', 'no joints', 'restart')
STEP = st.tuples(
    st.sampled_from(EVENTS), st.sampled_from(CHUNKS), st.integers(0, 2**32 - 1),
    st.integers(2, 60), st.integers(-10, 30), st.integers(0, 60), st.integers(0, 30),
)


def happens(world, step):
    """One event, and some ticks."""
    event, chunk, seed, rows, ahead, made_ago, ticks = step
    if event == 'offer':
        rng = np.random.default_rng(seed)
        world.offer(chunk(rng, world.manifest, world.arm, rows), ahead, made_ago)
    elif event == 'clear':
        world.servo.buffer.clear()
    elif event == 'stop':
        world.servo.brake()
        world.tick(ticks)
        world.servo.is_stopped = False
    elif event == 'no joints':
        world.has_joints = False
        world.tick(ticks)
        world.has_joints = True
    else:
        world.servo.brake()
        world.tick(80)
        world.servo.deactivate()
        world.tick()
        world.start()
    world.tick(ticks)


@settings(max_examples=40, deadline=None)
@given(st.lists(STEP, min_size=1, max_size=10), st.sampled_from([1.0, 0.3, 0.05]))
def test_every_command_obeys_every_limit_whatever_happens(robot, steps, share):
    """Chunks of any kind, early, late or none; stops, restarts, silence; an arm that lags."""
    world = ServoWorld(robot)
    world.share = share
    world.start()
    world.tick()

    for step in steps:
        happens(world, step)

    for commands in filter(None, world.runs):
        assert_within_limits(robot, commands)
        assert outside_m(robot, world.kinematics, commands) <= BOX_M


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(
    st.integers(0, 2**32 - 1), st.integers(1, 25), st.sampled_from([0.0, 1.0, 5.0]),
), min_size=1, max_size=6))
def test_there_is_always_a_way_to_stand_still_and_it_obeys_the_limits(robot, pieces):
    """After every single command: braking from there breaks no limit and leaves no workspace."""
    kinematics = ForwardKinematics(robot)
    safety = SafetyFilter(robot, kinematics, 12.0)
    safety.reset(robot.home)
    commands = [robot.home]
    for seed, ticks, hurry in pieces:
        rng = np.random.default_rng(seed)
        positions = robot.home + rng.uniform(-1.5, 1.5, len(robot.home))
        speeds = hurry * rng.uniform(-1, 1, len(robot.home)) * robot.column('max_velocity')
        for _ in range(ticks):
            motion = safety.step(Target(positions, speeds, 0))
            commands.append(motion.positions)
            end, stop_s = safety.stop
            way = braking(safety, robot.control_period_s)
            assert_within_limits(robot, commands + way, slack=1e-5)
            assert outside_m(robot, kinematics, way) <= BOX_M
            assert np.allclose(way[-1], end, atol=1e-6)
            assert stop_s <= len(way) * robot.control_period_s


def braking(safety, period_s):
    """The commands that would follow if there were no target any more."""
    twin = SafetyFilter.__new__(SafetyFilter)
    twin.__dict__.update(safety.__dict__)
    return [twin.brake().positions for _ in range(int(safety.stop[1] / period_s) + 2)]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 49), st.integers(0, 6), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_a_value_that_is_not_finite_is_refused_at_every_index(row, joint, value):
    """What plays goes on as if the bad chunk had not come."""
    good, bad = ServoWorld(ARM), ServoWorld(ARM)
    rng = np.random.default_rng(1)
    chunk = smooth(rng, ARM, ARM.home, 50)
    for world in (good, bad):
        world.start()
        world.tick()
        assert world.offer(chunk)
        world.tick(5)
    broken = chunk.copy()
    broken[row, joint] = value

    assert not bad.offer(broken)
    good.tick(20)
    bad.tick(20)

    assert np.array_equal(good.runs[0], bad.runs[0])
    assert bad.servo.buffer.counts['refused'] == 1


@pytest.mark.parametrize('width', [0, 1, 6, 8, 70])
def test_a_chunk_of_another_width_is_refused(width):
    """Not cut, not filled up."""
    world = ServoWorld(ARM)
    world.start()
    world.tick()

    assert not world.offer(np.zeros((50, width)))
    assert np.array_equal(world.tick(5).positions, ARM.home)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 200))
def test_the_first_command_is_the_measured_pose(seed, ticks):
    """Also where a chunk lies ready, after a stop in full motion, and wherever the arm was put."""
    world, rng = ServoWorld(ARM), np.random.default_rng(seed)
    world.start()
    world.tick()
    world.offer(jump(rng, ARM, world.arm, 50))
    world.tick(ticks)
    world.servo.deactivate()
    world.arm = ARM.home + rng.uniform(-0.02, 0.0, len(ARM.home))  # moved by hand meanwhile
    measured = world.arm.copy()

    world.start()
    world.offer(jump(rng, ARM, world.arm, 50))

    assert np.array_equal(world.tick().positions, measured)


@pytest.mark.parametrize('opens_at', ['upper', 'lower'])
@pytest.mark.parametrize(('opening', 'reached'), [(-3, 0.0), (0, 0.0), (1, 1.0), (40, 1.0)])
def test_fingers_end_at_the_ends_of_the_range_that_the_manifest_states(opens_at, opening, reached):
    """Which end is open, the range and its unit come from there alone."""
    finger = ARM.joints[ARM.gripper_index]
    ends = (finger.upper, finger.lower) if opens_at == 'upper' else (finger.lower, finger.upper)
    manifest = replace(ARM, gripper=Gripper(finger.name, *ends))
    world = ServoWorld(manifest)
    world.start()
    world.tick()

    for _ in range(6):
        rows = np.tile(manifest.home, (50, 1))
        rows[:, manifest.gripper_index] = manifest.gripper.position(opening)
        world.offer(rows)
        world.tick(20)

    position = float(world.arm[manifest.gripper_index])
    assert manifest.gripper.opening(position) == pytest.approx(reached, abs=2e-3)

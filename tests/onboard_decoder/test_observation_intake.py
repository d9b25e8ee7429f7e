# SPDX-License-Identifier: Apache-2.0
from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
from onboard_decoder.clock import ManualClock, to_ns
from onboard_decoder.errors import ImageRefused, JointsRefused
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.observation_intake import ObservationIntake
import pytest

MANIFEST = load_manifest('tendon_arm')
NAMES = list(MANIFEST.joint_names)
IMAGE = np.zeros((256, 256, 3), np.uint8)


@pytest.fixture
def clock():
    """A clock at 10 s."""
    return ManualClock(to_ns(10.0))


@pytest.fixture
def intake(clock):
    """An empty intake of the shipped arm."""
    return ObservationIntake(MANIFEST, clock, range_tolerance=0.25)


@settings(max_examples=50)
@given(st.permutations(range(9)))
def test_joints_are_taken_by_name_in_any_order(order):
    """Other joints of the machine do not disturb."""
    intake = ObservationIntake(MANIFEST, ManualClock(), 0.25)
    names, values = [*NAMES, 'wheel', 'head'], [*MANIFEST.home, 99.0, float('nan')]

    intake.take_joints(0.0, [names[i] for i in order], [values[i] for i in order])

    assert np.array_equal(intake.joints.positions, MANIFEST.home)


def test_velocities_that_are_missing_are_estimated(intake):
    """From two messages; also where a driver sends NaN."""
    intake.take_joints(1.0, NAMES, MANIFEST.home)
    intake.take_joints(1.1, NAMES, MANIFEST.home + 0.01, [float('nan')] * 7)
    assert np.allclose(intake.joints.velocities, 0.1)

    intake.take_joints(1.2, NAMES, MANIFEST.home, np.arange(7.0))
    assert np.array_equal(intake.joints.velocities, np.arange(7.0))


@pytest.mark.parametrize(('names', 'values', 'words'), [
    (NAMES[1:], [0.0] * 6, 'joints shoulder_pan_joint are missing; the message has shoulder_lift'),
    ([], [], 'the message has none'),
    (NAMES, [0.0] * 6, '6 positions for 7 joint names'),
    (NAMES, [float('nan')] + [0.0] * 6, 'shoulder_pan_joint is nan; it must be finite'),
    (NAMES, [0.0] * 3 + [float('inf')] + [0.0] * 3, 'wrist_1_joint is inf'),
    (NAMES, [-24.0] + [0.0] * 6, 'range is -3.1 to 3.1 rad: is the driver publishing another'),
    (NAMES, [0.0] * 6 + [42.0], 'range is 0 to 0.042 m'),
])
def test_bad_joints_are_refused_and_the_good_ones_stay(intake, names, values, words):
    """Each with its own sentence; nothing of the message is used."""
    intake.take_joints(1.0, NAMES, MANIFEST.home)

    with pytest.raises(JointsRefused, match=words):
        intake.take_joints(2.0, names, values)

    assert np.array_equal(intake.joints.positions, MANIFEST.home)
    assert intake.joints.stamp_ns == to_ns(1.0)
    assert intake.refused_count == 1


def test_ages_grow_with_the_clock(intake, clock):
    """None before the first, then the time since the stamp."""
    assert intake.joints_age_ns() is None
    intake.take_joints(9.9, NAMES, MANIFEST.home)
    clock.advance(to_ns(0.5))

    assert intake.joints_age_ns() == to_ns(0.6)


def test_an_older_message_does_not_replace_a_newer_one(intake):
    """Messages may overtake each other."""
    intake.take_joints(2.0, NAMES, MANIFEST.home)
    intake.take_joints(1.0, NAMES, MANIFEST.home + 0.001)
    intake.take_image('front', 2.0, IMAGE)
    intake.take_image('front', 1.0, IMAGE + 1)

    assert np.array_equal(intake.joints.positions, MANIFEST.home)
    assert intake.frames['front'].rgb.max() == 0


def test_fresh_frames_are_newer_than_asked_for(intake):
    """An image from before is none."""
    intake.take_image('front', 1.0, IMAGE)

    assert intake.fresh_frames(to_ns(1.0)) is None
    assert set(intake.fresh_frames(to_ns(0.999))) == {'front'}


@pytest.mark.parametrize(('camera', 'image', 'words'), [
    ('back', IMAGE, "camera 'back' is unknown; cameras are front"),
    ('front', np.zeros((480, 640, 3), np.uint8), 'is 640x480; the manifest has 256x256'),
    ('front', np.zeros((256, 256), np.uint8), 'must be \\(height, width, 3\\) uint8'),
    ('front', np.zeros((256, 256, 3)), 'float64'),
])
def test_bad_images_are_refused(intake, camera, image, words):
    """Each with its own sentence."""
    with pytest.raises(ImageRefused, match=words):
        intake.take_image(camera, 1.0, image)

    assert not intake.frames


@pytest.mark.parametrize('stamp_s', [10.2, 15.0, 1.7e9, float('nan')])
def test_stamps_of_another_clock_are_refused(intake, stamp_s):
    """Joints of the future would never be old: nobody would see that their driver is dead."""
    with pytest.raises(JointsRefused, match="ahead of the robot's clock"):
        intake.take_joints(stamp_s, NAMES, MANIFEST.home)
    with pytest.raises(ImageRefused, match="ahead of the robot's clock"):
        intake.take_image(MANIFEST.cameras[0].name, stamp_s, IMAGE)

    assert intake.joints is None and not intake.frames
    intake.take_joints(10.05, NAMES, MANIFEST.home)
    assert intake.joints is not None

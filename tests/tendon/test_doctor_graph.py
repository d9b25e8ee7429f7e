# SPDX-License-Identifier: Apache-2.0
"""Promises of the doctor's judgement on what a ROS graph publishes."""

import pytest
from tendon.doctor_finding import Finding, State
from tendon.doctor_graph import findings_of, Heard, IMAGE, JOINTS, JPEG


def heard(kind: str, rate_hz: float, age_s: float = 0.01) -> Heard:
    """Return two seconds of a topic."""
    came_s = [number / rate_hz for number in range(round(2 * rate_hz) + 1)]
    return Heard(kind, came_s, [age_s] * len(came_s))


def judged(topic: str, one: Heard) -> Finding:
    """Return the finding on one topic."""
    joints, camera = findings_of({topic: one}, 'nobody publishes any')
    return joints if one.kind == JOINTS else camera


@pytest.mark.parametrize(('kind', 'rate_hz'), [(JOINTS, 125.0), (JOINTS, 50.0), (IMAGE, 30.0),
                                               (JPEG, 10.0)])
def test_a_topic_that_comes_often_enough_is_right(kind: str, rate_hz: float) -> None:
    """With the rate that was heard."""
    found = judged('/arm/topic', heard(kind, rate_hz))
    assert found.state is State.OK
    assert found.detail == f'/arm/topic {rate_hz:.1f} Hz'


@pytest.mark.parametrize(('kind', 'rate_hz'), [(JOINTS, 25.0), (IMAGE, 2.0), (JPEG, 5.0)])
def test_a_topic_that_comes_too_seldom_is_a_warning(kind: str, rate_hz: float) -> None:
    """With what to raise."""
    found = judged('/arm/topic', heard(kind, rate_hz))
    assert found.state is State.WARNING
    assert 'less than' in found.detail and 'rate' in found.remedy


@pytest.mark.parametrize('count', [0, 1])
def test_a_publisher_that_says_nothing_is_a_warning(count: int) -> None:
    """It is there, but nothing comes: images too large for the profile, for example."""
    found = judged('/camera/image_raw', Heard(IMAGE, [0.0] * count))
    assert found.state is State.WARNING
    assert 'DDS profile' in found.remedy


@pytest.mark.parametrize('age_s', [5.0, -5.0])
def test_stamps_of_another_time_are_a_warning(age_s: float) -> None:
    """The age of an image counts from its stamp; the clocks of the machines must agree."""
    found = judged('/camera/image_raw', heard(IMAGE, 30.0, age_s))
    assert found.state is State.WARNING
    assert f'stamped {age_s:.1f} s ago' in found.detail and 'chrony' in found.remedy


def test_one_bad_camera_is_seen_among_good_ones() -> None:
    """Each topic is named with its own rate."""
    _, camera = findings_of(
        {'/left': heard(IMAGE, 30.0), '/right': heard(IMAGE, 3.0)}, 'nobody'
    )
    assert camera.state is State.WARNING
    assert camera.detail == '/left 30.0 Hz; /right 3.0 Hz (less than 8)'


def test_where_nobody_publishes_nothing_is_judged() -> None:
    """Skipped, with the reason and what to start."""
    for found in findings_of({}, 'there is no ROS here'):
        assert found.state is State.SKIPPED
        assert found.detail == 'there is no ROS here'
        assert found.remedy

# SPDX-License-Identifier: Apache-2.0
import numpy as np
from onboard_decoder.chunk_blend import Steepest
from onboard_decoder.errors import ChunkRefused
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.takeover import behind_tail, without_tail
import pytest

MANIFEST = load_manifest('tendon_arm')
PERIOD_S, HORIZON, JOINTS = 0.02, 50, 7
STEEPEST = Steepest.of(MANIFEST)


def parabola(count: int = 80) -> np.ndarray:
    """Rows of joints that begin at 0.1, at 0.2 per s, and speed up by 1.5 per s^2."""
    times = PERIOD_S * np.arange(count)
    return np.tile((0.1 + 0.2 * times + 0.75 * times**2)[:, None], JOINTS)


@pytest.mark.parametrize('delay_s', [0.0, 0.02, 0.16, 0.5])
def test_the_state_is_rolled_forward_along_what_is_committed(delay_s: float) -> None:
    """Position, velocity and acceleration are those of the tail when the chunk takes over."""
    rows = parabola()

    start = behind_tail(rows[0], np.full(JOINTS, 9.9), delay_s, rows, PERIOD_S, HORIZON)

    np.testing.assert_allclose(start.joints, 0.1 + 0.2 * delay_s + 0.75 * delay_s**2)
    np.testing.assert_allclose(start.velocities, 0.2 + 1.5 * delay_s, atol=1e-9)
    assert start.accelerations is not None
    np.testing.assert_allclose(start.accelerations, 1.5, atol=1e-6)
    assert start.delay_s == 0.0
    first = 1 + round(delay_s / PERIOD_S)
    assert start.tail is not None
    assert np.array_equal(start.tail[: len(rows) - first], rows[first:first + HORIZON])


def test_a_finger_that_a_thing_stops_is_not_rolled_forward() -> None:
    """It stays where it was measured, however far the old chunk would have closed it."""
    rows = parabola()
    joints = rows[0].copy()
    joints[6] = 0.02

    start = behind_tail(joints, np.zeros(JOINTS), 0.1, rows, PERIOD_S, HORIZON)

    assert (start.joints[6], start.velocities[6]) == (0.02, 0.0)
    assert (start.joints[:6] > joints[:6]).all()


def test_a_short_tail_ends_at_rest() -> None:
    """Behind its last row the old chunk stands still, and so does the state there."""
    rows = parabola(4)

    start = behind_tail(rows[0], np.zeros(JOINTS), 0.2, rows, PERIOD_S, HORIZON)

    assert start.tail is not None
    assert start.tail.shape == (HORIZON, JOINTS)
    assert (start.tail == rows[-1]).all()
    assert (start.joints == rows[-1]).all()
    assert not start.velocities.any()


@pytest.mark.parametrize(('change', 'words'), [
    (lambda rows: rows[:, :6], r'shape \(80, 6\).*7'),
    (lambda rows: rows[:0], r'shape \(0, 7\)'),
    (lambda rows: rows[0], r'shape \(7,\)'),
    (lambda rows: np.where(np.arange(80)[:, None] == 70, np.nan, rows), 'not finite'),
    (lambda rows: np.where(np.arange(80)[:, None] == 3, np.inf, rows), 'not finite'),
])
def test_an_unusable_tail_is_refused(change, words: str) -> None:  # type: ignore[no-untyped-def]
    """Another width, no rows, or a value that is not finite anywhere."""
    with pytest.raises(ChunkRefused, match=words):
        behind_tail(np.zeros(JOINTS), np.zeros(JOINTS), 0.0, change(parabola()), PERIOD_S,
                    HORIZON)


def test_a_motion_that_begins_elsewhere_is_led_to_the_end_of_the_prefix() -> None:
    """No step hides behind the prefix; the end of the motion stays; fingers stay as they are."""
    rows = parabola()
    start = behind_tail(rows[0], np.zeros(JOINTS), 0.1, rows, PERIOD_S, HORIZON)
    off = rows[6:56] + 0.004

    led = start.anchored(off, STEEPEST)

    np.testing.assert_allclose(led[0, :6], rows[6, :6], atol=0.1 * 0.004)
    np.testing.assert_allclose(led[-1], off[-1])
    assert np.array_equal(led[:, 6], off[:, 6])


def test_a_motion_that_goes_on_is_left_alone() -> None:
    """Nothing is off, nothing is changed."""
    rows = parabola()
    start = behind_tail(rows[0], np.zeros(JOINTS), 0.1, rows, PERIOD_S, HORIZON)

    np.testing.assert_allclose(start.anchored(rows[6:56], STEEPEST), rows[6:56], atol=1e-9)


def test_where_nothing_plays_the_measured_state_counts() -> None:
    """No tail: the delay is the decoder's to think of, and nothing is led anywhere."""
    joints, rows = np.full(JOINTS, 0.3), parabola()

    start = without_tail(joints, np.ones(JOINTS), 0.1)

    assert start.joints is joints
    assert (start.delay_s, start.tail, start.accelerations) == (0.1, None, None)
    assert start.anchored(rows, STEEPEST) is rows

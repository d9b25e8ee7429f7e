# SPDX-License-Identifier: Apache-2.0
import numpy as np
from sim.motion_profile import fastest

LIMITS = np.tile([0.5, 1.6, 16.0], (400, 1))


def _draw_start() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, (400, 3)) * [0.3, 0.45, 1.5], rng.uniform(-0.3, 0.3, 400)


def test_every_axis_starts_where_it_is_and_ends_at_rest_at_its_goal() -> None:
    """Start state and goal are met exactly, whatever the start velocity."""
    start, goals = _draw_start()
    profile = fastest(start, goals, LIMITS)

    first = profile.at(np.zeros((400, 1)))
    last = profile.at(profile.duration_s[:, None] + 1.0)

    np.testing.assert_allclose(np.concatenate(first, axis=1), start, atol=1e-9)
    np.testing.assert_allclose(last[0][:, 0], goals)
    assert not np.any(last[1])
    assert not np.any(last[2])


def test_limits_hold() -> None:
    """Velocity, acceleration and jerk stay within the limits when the start does."""
    start, goals = _draw_start()
    start[:, 2] = 0.0
    profile = fastest(start, goals, LIMITS)

    _, velocity, acceleration = profile.at(
        np.broadcast_to(np.linspace(0, 3, 600), (400, 600)))

    assert np.abs(velocity).max() < 0.5 + 1e-6
    assert np.abs(acceleration).max() < 1.6 + 1e-6
    assert np.abs(np.diff(acceleration)).max() / (3 / 599) < 16.0 + 1e-6


def test_an_axis_at_its_goal_takes_no_time() -> None:
    """Standing still where one wants to be is a motion of no duration."""
    profile = fastest(np.zeros((3, 3)), np.zeros(3), LIMITS[:3])

    assert not np.any(profile.duration_s)
    assert not np.any(profile.at(np.full((3, 2), 0.5))[0])


def test_first_within_is_the_last_crossing() -> None:
    """After that time the axis stays within the distance; just before it does not."""
    start, goals = _draw_start()
    profile = fastest(start, goals, LIMITS)
    since = profile.first_within(np.array(0.01))

    def away(shift_s: float) -> np.ndarray:
        times = np.maximum(since + shift_s, 0.0)[:, None]
        return np.abs(profile.at(times)[0][:, 0] - goals)

    assert away(1e-6).max() <= 0.0101
    assert np.all(away(-0.05)[since > 0.05] > 0.01)

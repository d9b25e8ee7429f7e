# SPDX-License-Identifier: Apache-2.0
import pytest
from sim.errors import CommandError
from sim.trajectory import check_values, TrajectoryFollower, TrajectoryPoint

NAMES = ('a', 'b')


@pytest.fixture
def follower():
    return TrajectoryFollower(NAMES, [1.0, 2.0])


def test_holds_before_and_after(follower):
    """Without a trajectory, and after its last point, the joints stay."""
    assert follower.at(5.0) == {'a': 1.0, 'b': 2.0}
    follower.replace(NAMES, [TrajectoryPoint(1.0, [3.0, 4.0])], 10.0, 10.0)
    assert follower.at(99.0) == {'a': 3.0, 'b': 4.0}


def test_straight_pieces_without_velocities(follower):
    """Half way in time is half way in position, from where the joints were."""
    follower.replace(NAMES, [TrajectoryPoint(2.0, [3.0, 2.0])], 10.0, 10.0)
    assert follower.at(11.0) == pytest.approx({'a': 2.0, 'b': 2.0})


def test_cubic_pieces_meet_positions_and_velocities(follower):
    """With velocities the path passes each point at the wanted speed."""
    points = [
        TrajectoryPoint(1.0, [2.0, 2.0], [0.5, 0.0]),
        TrajectoryPoint(2.0, [2.0, 1.0], [0.0, 0.0]),
    ]
    follower.replace(NAMES, points, 0.0, 0.0)
    step = 1e-5
    before, after = follower.at(1.0 - step), follower.at(1.0 + step)
    assert follower.at(1.0) == pytest.approx({'a': 2.0, 'b': 2.0})
    assert (after['a'] - before['a']) / (2 * step) == pytest.approx(0.5, abs=1e-3)
    assert follower.at(2.0) == pytest.approx({'a': 2.0, 'b': 1.0})


def test_a_new_trajectory_replaces_without_a_jump(follower):
    """The new one starts where the old one is at that moment; the rest of the old one is gone."""
    follower.replace(NAMES, [TrajectoryPoint(2.0, [3.0, 2.0])], 0.0, 0.0)
    follower.replace(['a'], [TrajectoryPoint(1.0, [0.0])], 1.0, 1.0)
    assert follower.at(1.0) == pytest.approx({'a': 2.0, 'b': 2.0})
    assert follower.at(1.5) == pytest.approx({'a': 1.0, 'b': 2.0})
    assert follower.at(3.0) == pytest.approx({'a': 0.0, 'b': 2.0})


def test_points_of_the_past_are_skipped(follower):
    """A trajectory that has begun already continues with its points to come."""
    points = [TrajectoryPoint(t, [t, t]) for t in (1.0, 2.0, 3.0)]
    follower.replace(NAMES, points, 0.0, 1.5)
    assert follower.at(2.0) == pytest.approx({'a': 2.0, 'b': 2.0})
    follower.replace(NAMES, points, -9.0, 2.0)
    assert follower.at(2.0) == pytest.approx({'a': 3.0, 'b': 3.0})


def test_no_points_means_hold(follower):
    """An empty trajectory stops the motion where it is."""
    follower.replace(NAMES, [TrajectoryPoint(2.0, [3.0, 2.0])], 0.0, 0.0)
    follower.replace(NAMES, [], 1.0, 1.0)
    assert follower.at(9.0) == pytest.approx({'a': 2.0, 'b': 2.0})


@pytest.mark.parametrize(
    ('names', 'points', 'text'),
    [
        (['c'], [TrajectoryPoint(1.0, [0.0])], "'c'; allowed: a, b"),
        (['a', 'a'], [TrajectoryPoint(1.0, [0.0, 0.0])], 'each joint once'),
        (NAMES, [TrajectoryPoint(1.0, [0.0])], r'allowed: 2 \(velocities also 0\)'),
        (NAMES, [TrajectoryPoint(1.0, [0.0, float('nan')])], 'finite'),
        (['a'], [TrajectoryPoint(1.0, [0.0]), TrajectoryPoint(1.0, [0.0])], 'more than 1.0'),
    ],
)
def test_nonsense_is_refused_and_changes_nothing(follower, names, points, text):
    """A trajectory that makes no sense leaves the one before in place."""
    follower.replace(NAMES, [TrajectoryPoint(2.0, [3.0, 2.0])], 0.0, 0.0)
    with pytest.raises(CommandError, match=text):
        follower.replace(names, points, 1.0, 1.0)
    assert follower.at(2.0) == {'a': 3.0, 'b': 2.0}


def test_forward_commands_are_counted():
    """A command without names must have one finite value per joint."""
    check_values(NAMES, [0.0, 1.0])
    with pytest.raises(CommandError, match='number of positions is 3; allowed: 2'):
        check_values(NAMES, [0.0, 1.0, 2.0])
    with pytest.raises(CommandError, match='finite'):
        check_values(NAMES, [0.0, float('inf')])

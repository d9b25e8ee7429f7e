# SPDX-License-Identifier: Apache-2.0
"""Promises of who gives way first."""

from cloud_backbone.kv_state.tier import first_to_go, Place, Tier, TierLimits
import pytest


def place(key: str, used_s: float, resume_s: float | None = None) -> Place:
    return Place(key, Tier.POOL, 1, used_s, resume_s)


def test_least_recently_used_goes_first() -> None:
    """Without hints it is plain LRU."""
    assert first_to_go([place('new', 9), place('old', 1), place('mid', 5)], 10).key == 'old'


def test_robot_that_is_away_for_long_goes_before_an_idle_one() -> None:
    """Who said that it comes back late makes room for who says nothing, and the reverse."""
    assert first_to_go([place('idle', 8), place('away', 10, 60)], 10).key == 'away'
    assert first_to_go([place('idle', 1), place('soon', 2, 11)], 10).key == 'idle'


def test_robot_that_is_overdue_counts_as_idle() -> None:
    """A hint that did not come true protects nobody."""
    assert first_to_go([place('overdue', 1, 5), place('idle', 3)], 10).key == 'overdue'


def test_nobody_to_go() -> None:
    """Of none, none goes."""
    assert first_to_go([], 10) is None


def test_time_away_as_announced_is_not_idle() -> None:
    """Idle time begins when the robot could have been back."""
    assert place('a', 2).idle(10) == 8
    assert place('a', 2, 7).idle(10) == 3
    assert place('a', 2, 20).idle(10) < 0


@pytest.mark.parametrize(('byte_limit', 'idle_s'), [(-1, 1.0), (1, -1.0), (1, float('nan'))])
def test_impossible_limits_are_refused(byte_limit: int, idle_s: float) -> None:
    """Limits are checked when they are made."""
    with pytest.raises(ValueError, match='neither is negative'):
        TierLimits(byte_limit, idle_s)

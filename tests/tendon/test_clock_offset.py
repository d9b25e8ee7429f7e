# SPDX-License-Identifier: Apache-2.0
"""Promises of the offset between two clocks."""

import time

from hypothesis import given
from hypothesis import strategies as st
import pytest
from tendon.clock_offset import ClockWatch, estimate, Reading

from tests.fakes.scripted_planner import ScriptedPlanner

WAYS = st.lists(
    st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=70
)


@given(WAYS, st.integers(-5 * 10**9, 5 * 10**9))
def test_the_true_offset_is_within_the_bound(
    ways: list[tuple[int, int]], offset_ns: int
) -> None:
    """Whatever the ways there and back take, and however far the clocks are apart."""
    readings = [
        Reading(10**12 * number, 10**12 * number + up + offset_ns, 10**12 * number + up + down)
        for number, (up, down) in enumerate(ways)
    ]
    found = estimate(readings)
    assert abs(found.offset_ns - offset_ns) <= found.bound_ns
    assert found.bound_ns <= min(up + down for up, down in ways) / 2 + 2


def test_nothing_asked_gives_no_offset() -> None:
    """There is no guess without a reading."""
    with pytest.raises(ValueError, match='empty'):
        estimate([])


def test_a_watch_reads_the_clock_of_a_backbone() -> None:
    """Over the real call; on one machine the offset is nothing, within the bound."""
    deadline_s = time.monotonic() + 20.0
    with ScriptedPlanner() as planner, ClockWatch(planner.address) as watch:
        while (found := watch.near(0)) is None:
            assert time.monotonic() < deadline_s, 'no reading'
            time.sleep(0.01)
    assert abs(found.offset_ns) <= found.bound_ns


def test_a_backbone_that_is_not_there_gives_none() -> None:
    """A link that is away costs no more than the drawing."""
    with ClockWatch('127.0.0.1:1') as watch:
        pass
    assert watch.near(0) is None

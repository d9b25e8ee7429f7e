# SPDX-License-Identifier: Apache-2.0
import pytest
from sim.pacer import Pacer


class FakeClock:
    """Time that passes only by sleeping or by hand."""

    def __init__(self):
        self.now_s = 100.0

    def read(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def pacer(clock):
    return Pacer(patience_s=0.1, clock=clock.read, sleep=clock.sleep)


def test_work_does_not_add_to_the_period(clock, pacer):
    """Ten rounds take ten periods, however long the work in each takes."""
    for work_s in (0.0, 0.009) * 5:
        clock.now_s += work_s
        pacer.wait(0.01)
    assert clock.now_s == pytest.approx(100.1)


def test_a_short_delay_is_made_up(clock, pacer):
    """After one late round the loop is back on its grid and nothing is lost."""
    clock.now_s += 0.05
    for _ in range(10):
        pacer.wait(0.01)
    assert clock.now_s == pytest.approx(100.1)
    assert pacer.lost_s == 0.0


def test_a_long_delay_is_given_up(clock, pacer):
    """After a long stall the loop goes on at its normal pace instead of in a burst."""
    clock.now_s += 3.0
    pacer.wait(0.01)
    assert pacer.lost_s == pytest.approx(2.99)
    start_s = clock.now_s
    for _ in range(10):
        pacer.wait(0.01)
    assert clock.now_s - start_s == pytest.approx(0.1)

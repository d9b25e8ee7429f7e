# SPDX-License-Identifier: Apache-2.0
import threading
import time

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
from onboard_decoder.clock import ManualClock, MonotonicClock
from onboard_decoder.command_loop import CommandLoop
import pytest

PERIOD_NS = 20_000_000


class JumpingClock:
    """Arrives exactly at each deadline; work takes what the test says."""

    def __init__(self):
        self.time_ns = 0

    def now_ns(self):
        return self.time_ns

    def sleep_until(self, deadline_ns):
        self.time_ns = max(self.time_ns, deadline_ns)


def run(work_ns):
    """Run one tick per entry; return the loop and the times at which ticks began."""
    clock, began, works = JumpingClock(), [], iter(work_ns)

    def tick():
        began.append(clock.time_ns)
        clock.time_ns += next(works)

    loop = CommandLoop(tick, PERIOD_NS / 1e9, clock)
    deadline_ns = 0
    for _ in work_ns:
        deadline_ns = loop.run_once(deadline_ns)
    return loop, began


def test_ticks_stay_on_the_grid():
    """Work shorter than the period leaves no drift."""
    loop, began = run([3_000_000, 15_000_000, 19_999_999, 1])

    assert began == [0, PERIOD_NS, 2 * PERIOD_NS, 3 * PERIOD_NS]
    assert loop.statistics().missed_count == 0


def test_a_tick_that_is_late_by_less_than_a_period_still_comes():
    """Late is not missed, and the grid is kept."""
    loop, began = run([25_000_000, 1_000_000, 1_000_000])

    assert began == [0, 25_000_000, 2 * PERIOD_NS]
    assert loop.statistics().missed_count == 0


def test_missed_ticks_are_skipped_and_counted_never_made_up_for():
    """A stall of five periods costs the ticks inside it; afterwards there is no burst."""
    loop, began = run([5 * PERIOD_NS + 7_000_000, 1_000_000, 1_000_000, 1_000_000])

    gaps = [later - earlier for earlier, later in zip(began[1:-1], began[2:], strict=True)]
    assert all(gap >= PERIOD_NS - 7_000_000 for gap in gaps)
    assert all(time_ns % PERIOD_NS == 0 for time_ns in began[2:])
    assert loop.statistics().missed_count == 4


def test_a_tick_that_raises_is_counted_and_the_loop_goes_on(caplog):
    """One fault does not silence the arm."""
    calls = []

    def tick():
        calls.append(1)
        raise ValueError('broken')

    loop = CommandLoop(tick, 0.02, JumpingClock())
    deadline_ns = 0
    for _ in range(3):
        deadline_ns = loop.run_once(deadline_ns)

    assert len(calls) == 3
    assert loop.statistics().error_count == 3
    assert len([record for record in caplog.records if record.exc_info]) == 1


def test_the_thread_runs_on_a_real_clock_and_stops():
    """Ticks come, and after ``stop`` none does."""
    came = threading.Event()
    loop = CommandLoop(came.set, 0.005, MonotonicClock())
    loop.start()

    assert came.wait(10)
    loop.stop()
    count = loop.statistics().tick_count
    time.sleep(0.02)

    assert loop.statistics().tick_count == count > 0


def test_a_manual_clock_moves_only_when_told():
    """A sleeper wakes when somebody has advanced the clock far enough; time never goes back."""
    clock = ManualClock(100)
    woke = threading.Event()
    sleeper = threading.Thread(target=lambda: (clock.sleep_until(200), woke.set()))
    sleeper.start()

    clock.advance(99)
    assert not woke.wait(0.05)
    clock.advance(1)

    assert woke.wait(10)
    sleeper.join()
    with pytest.raises(ValueError, match='never goes back'):
        clock.advance(-1)


def test_fifty_a_second_for_ten_minutes():
    """30,000 ticks, at exactly 50.000 Hz, none missed, none late, whatever the work takes."""
    ticks = 10 * 60 * 50
    works_ns = np.random.default_rng(1).integers(10_000, PERIOD_NS, ticks)

    loop, began = run([int(work) for work in works_ns])

    found = loop.statistics()
    assert set(np.diff(began)) == {PERIOD_NS}
    assert (found.tick_count, found.missed_count) == (ticks, 0)
    assert found.rate_hz == 50.0
    assert found.period_error_ms_p50 == found.jitter_ms_max == 0.0


def test_ten_minutes_with_stalls_keep_the_grid():
    """Twenty stalls of 3 to 50 periods: their ticks are missed, all others are on the grid."""
    rng = np.random.default_rng(2)
    works = np.full(29_000, 1_000_000)
    stalls = rng.integers(3, 50, 20) * PERIOD_NS + rng.integers(0, PERIOD_NS, 20)
    works[rng.choice(28_999, 20, replace=False)] = stalls

    loop, began = run([int(work) for work in works])

    starts = np.array(began)
    assert (starts % PERIOD_NS == 0).sum() >= len(works) - 2 * len(stalls)
    assert np.diff(starts // PERIOD_NS).min() == 1
    whole = starts[-1] // PERIOD_NS + 1
    assert loop.statistics().tick_count + loop.statistics().missed_count == whole > len(works)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(
    st.integers(0, 998), st.integers(PERIOD_NS, 100 * PERIOD_NS),
), max_size=30))
def test_stalls_cost_their_ticks_and_no_more(stalls):
    """No burst, the grid is kept, each tick is either done or counted."""
    works = np.full(1_000, 1_000_000)
    for at, work in stalls:
        works[at] = work

    loop, began = run([int(work) for work in works])

    found, starts = loop.statistics(), np.array(began)
    assert np.diff(starts // PERIOD_NS).min() >= 1  # never two in one period
    assert found.tick_count + found.missed_count == starts[-1] // PERIOD_NS + 1
    lost = sum(int(work) // PERIOD_NS for work in works)
    assert found.missed_count <= lost

# SPDX-License-Identifier: Apache-2.0
from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
from onboard_decoder.errors import ChunkRefused
from onboard_decoder.plan_buffer import Chunk, PlanBuffer
import pytest

N = 2
PERIOD_S = 0.02


def buffer(fade=5, age=50):
    """An empty buffer for two joints."""
    return PlanBuffer(N, PERIOD_S, fade, age)


def ramp(first, count=50, slope=0.01, start=0.0):
    """Targets that depend on the tick alone: start + slope * tick."""
    ticks = np.arange(first, first + count)[:, None]
    return np.repeat(start + slope * ticks, N, axis=1)


LATENESS = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 12)), min_size=1, max_size=20)


@settings(max_examples=60, deadline=None)
@given(LATENESS)
def test_a_constant_policy_stays_constant_through_merges(lateness):
    """Whenever chunks come and however late, the same answer gives the same output."""
    plays, tick, last = buffer(), 0, np.full(N, 0.7)
    for gap, late in lateness:
        plays.offer(Chunk(1, tick, tick + 1, np.full((50, N), 0.7)))
        for _ in range(gap + late):
            target = plays.sample(tick, last)
            if target is not None:
                last = target.positions
            assert np.allclose(last, 0.7, atol=1e-12)
            tick += 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 10)), min_size=1, max_size=15))
def test_alignment_is_exact_whatever_the_delay(lateness):
    """Chunks of one line, each late by another number of ticks, give that line at every tick."""
    plays, tick, played = buffer(), 0, 0
    last = ramp(0, 1)[0]
    for gap, late in lateness:
        chunk = Chunk(1, tick, tick + 1, ramp(tick + 1))
        for waited in range(gap + late):
            if waited == late:
                plays.offer(chunk)
            target = plays.sample(tick, last)
            played += target is not None
            if played > 6:  # the first chunk fades in from standing still
                assert np.allclose(target.positions, ramp(tick, 1)[0], atol=1e-9)
            last = target.positions if target is not None else last
            tick += 1


def test_a_chunk_waits_for_its_first_tick():
    """The old one plays on until then."""
    plays = buffer()
    plays.offer(Chunk(1, 0, 0, np.zeros((50, N))))
    plays.sample(0, np.zeros(N))
    plays.offer(Chunk(2, 1, 4, np.ones((50, N))))

    numbers = [plays.sample(tick, np.zeros(N)).chunk_number for tick in range(1, 6)]

    assert numbers == [1, 1, 1, 2, 2]


def test_the_first_target_is_near_the_last_command_and_the_fade_is_smooth():
    """From the last command to a chunk elsewhere in ``fade`` ticks, without a jump."""
    plays = buffer(fade=10)
    plays.offer(Chunk(1, 0, 0, np.ones((50, N))))

    path = np.array([plays.sample(tick, np.zeros(N)).positions[0] for tick in range(14)])

    assert path[0] < 0.01
    assert (np.diff(path) >= 0).all()
    assert np.allclose(path[10:], 1.0)


def test_a_chunk_expires_by_age_and_by_its_end():
    """After that there is nothing, not the last target again."""
    plays = buffer(age=20)
    plays.offer(Chunk(1, 0, 5, np.zeros((50, N))))
    assert plays.sample(20, np.zeros(N)) is not None
    assert plays.sample(21, np.zeros(N)) is None
    plays = buffer(age=90)
    plays.offer(Chunk(1, 0, 0, np.zeros((10, N))))
    assert plays.sample(9, np.zeros(N)) is not None
    assert plays.sample(10, np.zeros(N)) is None


def test_a_chunk_that_comes_too_late_leaves_the_old_one():
    """Expired on arrival: nothing changes."""
    plays = buffer(age=20)
    plays.offer(Chunk(1, 30, 30, np.zeros((50, N))))
    plays.sample(30, np.zeros(N))
    plays.offer(Chunk(2, 5, 6, np.ones((50, N))))

    assert plays.sample(31, np.zeros(N)).chunk_number == 1


def test_what_comes_next_can_be_asked_for():
    """The rows that will be played, the last one repeated; nothing where none covers the start."""
    plays = buffer(fade=1)
    assert plays.upcoming(0, 3) is None
    plays.offer(Chunk(1, 0, 0, ramp(0, 10)))
    last = ramp(0, 1)[0]
    for tick in range(4):
        last = plays.sample(tick, last).positions

    assert np.allclose(plays.upcoming(5, 3), ramp(5, 3))
    assert np.allclose(plays.upcoming(5.5, 2), ramp(5, 2) + 0.005)
    assert np.allclose(plays.upcoming(8, 4), ramp(0, 10)[[8, 9, 9, 9]])
    assert plays.upcoming(10, 2) is None
    plays.clear()
    assert plays.upcoming(5, 3) is None


def test_clear_drops_everything():
    """Also what was offered and not yet taken up."""
    plays = buffer()
    plays.offer(Chunk(1, 0, 0, np.zeros((50, N))))
    plays.sample(0, np.zeros(N))
    plays.offer(Chunk(2, 0, 3, np.zeros((50, N))))

    plays.clear()

    assert all(plays.sample(tick, np.zeros(N)) is None for tick in range(1, 6))


def test_velocities_come_from_neighbours_and_end_at_zero():
    """The slope inside, rest at the end of the chunk."""
    plays = buffer(fade=1)
    plays.offer(Chunk(1, 0, 0, ramp(0, 10)))

    targets = [plays.sample(tick, ramp(tick, 1)[0]) for tick in range(10)]

    assert np.allclose(targets[5].velocities, 0.01 / PERIOD_S)
    assert np.allclose(targets[9].velocities, 0.0)


@pytest.mark.parametrize('bad', [
    np.zeros((50, N + 1)), np.zeros(50), np.zeros((1, N)), np.zeros((0, N)),
    np.where(np.arange(100).reshape(50, N) == 77, np.nan, 0.0),
    np.where(np.arange(100).reshape(50, N) == 0, np.inf, 0.0),
])
def test_unusable_chunks_are_refused_and_counted(bad):
    """Width, length, NaN and infinity at any index; what plays is not touched."""
    plays = buffer()
    plays.offer(Chunk(1, 0, 0, np.zeros((50, N))))

    with pytest.raises(ChunkRefused):
        plays.offer(Chunk(2, 0, 0, bad))

    assert plays.refused_count == 1
    assert plays.sample(0, np.zeros(N)).chunk_number == 1

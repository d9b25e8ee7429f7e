# SPDX-License-Identifier: Apache-2.0
"""What is played of the chunks that come: early, late, old and bad ones."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
from onboard_decoder.chunk import Chunk
from onboard_decoder.errors import ChunkRefused
from onboard_decoder.joint_limiter import Motion
import pytest

from tests.onboard_decoder.played_chunks import (
    buffer,
    motion,
    N,
    PERIOD_S,
    play,
    ramp,
    STILL,
)

LATENESS = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 12)), min_size=1, max_size=20)


@settings(max_examples=60, deadline=None)
@given(LATENESS)
def test_a_constant_policy_stays_constant_through_merges(lateness):
    """Whenever chunks come and however late, the same answer gives the same output."""
    plays, tick, last = buffer(), 0, motion(0.7)
    for gap, late in lateness:
        plays.offer(Chunk(1, tick, tick + 1, np.full((50, N), 0.7)))
        for _ in range(gap + late):
            target = plays.sample(tick, last)
            if target is not None:
                last = Motion.at_rest(target.positions)
            assert np.allclose(last.positions, 0.7, atol=1e-12)
            tick += 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 10)), min_size=1, max_size=15))
def test_alignment_is_exact_whatever_the_delay(lateness):
    """Chunks of one line, each late by another number of ticks, give that line at every tick."""
    plays, tick = buffer(), 0
    last = motion(-0.01, 0.01)  # on the line already
    plays.offer(Chunk(0, 0, 0, ramp(0)))
    for gap, late in lateness:
        chunk = Chunk(1, tick, tick + 1, ramp(tick + 1))
        for waited in range(gap + late):
            if waited == late:
                plays.offer(chunk)
            target = plays.sample(tick, last)
            assert np.allclose(target.positions, ramp(tick, 1)[0], atol=1e-9)
            assert np.allclose(target.velocities, 0.01 / PERIOD_S, atol=1e-9)
            tick += 1


def test_a_chunk_waits_for_its_first_tick():
    """The old one plays on until then."""
    plays = buffer()
    plays.offer(Chunk(1, 0, 0, np.zeros((50, N))))
    plays.sample(0, STILL)
    plays.offer(Chunk(2, 1, 4, np.ones((50, N))))

    numbers = [plays.sample(tick, STILL).chunk_number for tick in range(1, 6)]

    assert numbers == [1, 1, 1, 2, 2]


def test_chunks_that_come_before_their_time_do_not_push_each_other_out():
    """Each plays from its own first tick, though the next is there already."""
    plays = buffer()
    plays.offer(Chunk(1, 0, 0, np.zeros((50, N))))
    plays.sample(0, STILL)
    for number, first in ((2, 3), (3, 5)):
        plays.offer(Chunk(number, number, first, np.zeros((50, N))))

    numbers = [plays.sample(tick, STILL).chunk_number for tick in range(1, 7)]

    assert numbers == [1, 1, 2, 2, 3, 3]


def test_a_newer_chunk_that_is_due_no_later_replaces_one_that_waits():
    """What was computed from newer joints is better where both are due."""
    plays = buffer()
    plays.offer(Chunk(1, 0, 0, np.zeros((50, N))))
    plays.sample(0, STILL)
    plays.offer(Chunk(2, 1, 6, np.zeros((50, N))))
    plays.offer(Chunk(3, 2, 4, np.zeros((50, N))))

    numbers = [plays.sample(tick, STILL).chunk_number for tick in range(1, 8)]

    assert numbers == [1, 1, 1, 3, 3, 3, 3]


def test_where_nothing_plays_a_chunk_starts_at_once_with_its_first_row():
    """An arm at rest skips nothing and waits for nothing."""
    plays = buffer(fade=1)
    plays.offer(Chunk(1, 0, 30, ramp(0, 50)))

    path = play(plays, range(3, 10))

    assert np.allclose(path[1:], ramp(0, 7)[1:])  # by then the start has faded out


def test_a_chunk_expires_by_its_end_and_where_no_newer_one_comes():
    """After that there is nothing, not the last target again."""
    plays = buffer(age=20)
    plays.offer(Chunk(1, 0, 5, np.zeros((50, N))))
    assert all(plays.sample(tick, STILL) is not None for tick in range(5, 31))
    assert plays.sample(31, STILL) is None  # it was 5 ticks under way, and so may the next one be
    plays = buffer(age=90)
    plays.offer(Chunk(1, 0, 0, np.zeros((10, N))))
    assert all(plays.sample(tick, STILL) is not None for tick in range(10))
    assert plays.sample(10, STILL) is None


def test_a_chunk_that_comes_too_late_leaves_the_old_one():
    """Nothing left of it, or longer under way than it lasts: dropped and counted."""
    plays = buffer(age=90)
    plays.offer(Chunk(1, 0, 0, np.zeros((90, N))))
    plays.sample(0, STILL)
    plays.offer(Chunk(2, 5, 6, np.ones((10, N))))
    assert plays.sample(16, STILL).chunk_number == 1
    plays.offer(Chunk(3, 6, 50, np.ones((30, N))))
    assert plays.sample(60, STILL).chunk_number == 1

    assert plays.counts['too_late'] == 2


def test_a_chunk_from_older_joints_than_what_plays_is_dropped():
    """Answers that overtake each other do not turn time back."""
    plays = buffer()
    plays.offer(Chunk(2, 30, 30, np.zeros((50, N))))
    plays.sample(30, STILL)
    plays.offer(Chunk(1, 29, 29, np.ones((50, N))))

    assert plays.sample(31, STILL).chunk_number == 2
    assert plays.counts['out_of_order'] == 1


def test_what_comes_next_can_be_asked_for():
    """The rows that will be played, the last one repeated; nothing where none covers the start."""
    plays = buffer(fade=1)
    assert plays.upcoming(0, 3) is None
    plays.offer(Chunk(1, 0, 0, ramp(0, 10)))
    for tick in range(4):
        plays.sample(tick, motion(0.01 * (tick - 1), 0.01))

    assert np.allclose(plays.upcoming(5, 3), ramp(5, 3))
    assert np.allclose(plays.upcoming(5.5, 2), ramp(5, 2) + 0.005)
    assert np.allclose(plays.upcoming(8, 4), ramp(0, 10)[[8, 9, 9, 9]])
    assert plays.upcoming(10, 2) is None
    plays.offer(Chunk(2, 3, 7, np.ones((10, N))))
    plays.sample(4, motion(0.03, 0.01))
    assert np.allclose(plays.upcoming(6, 1), ramp(6, 1))
    assert np.allclose(plays.upcoming(7, 2), 1.0)
    plays.clear()
    assert plays.upcoming(5, 3) is None


def test_clear_drops_everything():
    """What plays, what was offered, and what was still being computed."""
    plays = buffer()
    plays.offer(Chunk(1, 0, 0, np.zeros((50, N))))
    plays.sample(0, STILL)
    plays.offer(Chunk(2, 0, 3, np.zeros((50, N))))
    epoch = plays.epoch

    plays.clear()
    assert plays.played is None
    plays.offer(Chunk(3, 1, 2, np.zeros((50, N)), epoch))

    assert all(plays.sample(tick, STILL) is None for tick in range(1, 6))
    assert plays.counts['old_epoch'] == 2
    plays.offer(Chunk(4, 6, 6, np.zeros((50, N)), plays.epoch))
    assert plays.sample(6, STILL).chunk_number == 4


def test_velocities_come_from_neighbours_and_end_at_zero():
    """The slope inside, rest at the end of the chunk."""
    plays = buffer(fade=1)
    plays.offer(Chunk(1, 0, 0, ramp(0, 10)))

    targets = [plays.sample(tick, motion(0.01 * (tick - 1), 0.01)) for tick in range(10)]

    assert np.allclose(targets[0].velocities, 0.01 / PERIOD_S)
    assert np.allclose(targets[5].velocities, 0.01 / PERIOD_S)
    assert np.allclose(targets[9].velocities, 0.0)


@pytest.mark.parametrize('bad', [
    np.zeros((50, N + 1)), np.zeros(50), np.zeros((1, N)), np.zeros((0, N)),
    *(np.where(np.arange(100).reshape(50, N) == index, value, 0.0)
      for index in range(0, 100, 7) for value in (np.nan, np.inf, -np.inf)),
])
def test_unusable_chunks_are_refused_and_counted(bad):
    """Width, length, NaN and infinity at any index; what plays is not touched."""
    plays = buffer()
    plays.offer(Chunk(1, 0, 0, np.zeros((50, N))))

    with pytest.raises(ChunkRefused):
        plays.offer(Chunk(2, 0, 0, bad))

    assert plays.counts['refused'] == 1
    assert plays.sample(0, STILL).chunk_number == 1

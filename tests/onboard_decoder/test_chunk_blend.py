# SPDX-License-Identifier: Apache-2.0
"""A new chunk joins what is played without a step."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
from onboard_decoder.chunk import Chunk
from onboard_decoder.chunk_blend import Steepest
from onboard_decoder.plan_buffer import PlanBuffer

from tests.onboard_decoder.played_chunks import (
    buffer,
    motion,
    N,
    PERIOD_S,
    play,
    swing,
)


def test_the_first_target_is_the_last_command_and_the_fade_is_smooth():
    """From the last command to a chunk elsewhere in ``fade`` ticks, without a jump."""
    plays = buffer(fade=10)
    plays.offer(Chunk(1, 0, 0, np.ones((50, N))))

    path = play(plays, range(14))[:, 0]

    assert 0.0 < path[0] < 0.01
    assert (np.diff(path) >= 0).all()
    assert np.allclose(path[10:], 1.0)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(-0.05, 0.05), st.floats(-0.005, 0.005), st.integers(0, 15), st.integers(6, 20),
)
def test_a_seam_has_no_step_in_position_velocity_or_acceleration(offset, slope, late, fade):
    """However far and however differently sloped the new chunk is, and however late it comes."""
    plays, ticks = buffer(fade), np.arange(80)
    plays.offer(Chunk(1, 0, 0, swing(ticks[:50])))
    first = 10
    lines = np.repeat((offset + slope * np.arange(50))[:, None], N, axis=1)
    path = []
    for tick in range(55):
        if tick == first + late:
            plays.offer(Chunk(2, 9, first, swing(ticks[first:first + 50]) + lines))
        path.append(plays.sample(tick, motion(-0.02, 0.02)).positions)

    # Of a polynomial of fifth degree: no third difference above 60 / fade^3 of what fades out.
    spread = abs(offset) + (20 + fade) * abs(slope)
    most = 60 * 2 * spread / fade**3 + 3 * 0.4 * 0.05**3
    assert np.abs(np.diff(path, 3, axis=0)).max() <= most
    whole = swing(ticks[first + late + fade:55]) + lines[late + fade:55 - first]
    assert np.allclose(path[first + late + fade:], whole)


def test_a_chunk_goes_on_with_the_speed_of_the_arm_where_nothing_played():
    """Taken up while braking: no step in velocity."""
    plays = buffer(fade=10)
    plays.offer(Chunk(1, 0, 0, np.zeros((50, N))))

    target = plays.sample(0, motion(0.1, 0.01))
    following = plays.sample(1, motion(0.11, 0.01))

    assert np.allclose(target.positions, 0.11, atol=1.5e-3)
    assert np.allclose(target.velocities * PERIOD_S, 0.01, atol=5e-3)
    assert target.positions[0] < following.positions[0] < 0.12


@settings(max_examples=60, deadline=None)
@given(st.floats(-0.4, 0.4), st.floats(-0.02, 0.02))
def test_a_fade_takes_its_share_of_each_limit_and_no_more(offset, slope):
    """A large offset fades longer: velocity, acceleration and jerk of the fade stay small."""
    limits, share = Steepest(np.full(N, 0.032), np.full(N, 2e-3), np.full(N, 4.8e-4)), 0.5
    plays = PlanBuffer(N, PERIOD_S, 10, 90, limits, share)
    plays.offer(Chunk(1, 0, 0, np.full((90, N), offset)))

    path = play(plays, range(80), motion(0.0, slope))

    bend, jerk = np.diff(path, 2, axis=0), np.diff(path, 3, axis=0)
    both = 1 + (abs(slope) > 1e-3)  # of position and of velocity, each with its share
    if abs(offset) + 15 * abs(slope) < 0.1:  # beyond, the longest fade ends it
        assert np.abs(bend).max() <= both * share * 2e-3 * 1.05
        assert np.abs(jerk).max() <= both * share * 4.8e-4 * 1.05
    assert np.allclose(path[60:], offset)


def test_no_more_is_carried_over_than_an_arm_can_do():
    """A chunk that jumps at its start does not throw the targets to the other side."""
    limits = Steepest(np.full(N, 0.02), np.full(N, 0.002), np.full(N, 5e-4))
    slow = PlanBuffer(N, PERIOD_S, 10, 50, limits)
    jump = np.ones((50, N))
    jump[0] = 0.0
    slow.offer(Chunk(1, 0, 0, jump))

    path = play(slow, range(14))

    assert path.min() > -0.1

# SPDX-License-Identifier: Apache-2.0
import numpy as np
from onboard_decoder.chunk_maker import ChunkMaker, TickStamp
from onboard_decoder.clock import ManualClock
from onboard_decoder.config import ChunkSettings
from onboard_decoder.errors import ChunkRefused
from onboard_decoder.joint_limiter import Motion
from onboard_decoder.observation_intake import JointState
from onboard_decoder.plan import PlanStep, Skill
from onboard_decoder.plan_buffer import PlanBuffer
import pytest

from tests.onboard_decoder.gantry import Chunk, gantry

PERIOD_NS = 20_000_000
STEP = PlanStep(Skill.REACH, (0.5, 0.0, 0.2))


class SlowDecoder:
    """Takes a chosen time on the clock; remembers what it was given."""

    def __init__(self, clock):
        self.clock, self.duration_ns, self.delays_s, self.joints = clock, 0, [], []
        self.answer = np.zeros((50, 4))

    def decode(self, step, joints, velocities, delay_s, latent=(), tail=None):
        self.clock.advance(self.duration_ns)
        self.delays_s.append(delay_s)
        self.joints.append(joints)
        return Chunk(self.answer, 1.5)


@pytest.fixture
def world(tmp_path):
    """Maker, decoder, clock, buffer."""
    manifest, clock = gantry(tmp_path), ManualClock(10 * PERIOD_NS)
    buffer, decoder = PlanBuffer(4, 0.02, 5, 50), SlowDecoder(clock)
    maker = ChunkMaker(decoder, buffer, clock, manifest, ChunkSettings(decode_window=3))
    return manifest, maker, decoder, clock, buffer


def made(world, tick_number=10, joints=None):
    """Make one chunk on tick 10."""
    manifest, maker, _, clock, _ = world
    motion = Motion.at_rest(manifest.home)
    measured = manifest.home if joints is None else joints
    state = JointState(clock.now_ns(), measured, np.zeros(4))
    tick = TickStamp(tick_number, tick_number * PERIOD_NS, tick_number)
    return maker.make(STEP, (), state, motion, tick)


def first_tick(world):
    """Tick at which the newest chunk is used first."""
    buffer = world[-1]
    for tick in range(11, 30):
        if buffer.sample(tick, Motion.at_rest(np.zeros(4))) is not None:
            return tick
    raise AssertionError('never')


def test_a_fast_decoder_is_used_at_the_next_tick(world):
    """Lockstep: no time passes, no delay is planned."""
    made(world)

    assert world[2].delays_s == [0.0]
    assert first_tick(world) == 11


def test_a_slow_decoder_is_told_its_delay_the_next_time(world):
    """The longest of the last runs counts, and is forgotten after some good ones."""
    _, maker, decoder, clock, buffer = world
    decoder.duration_ns = 2 * PERIOD_NS + 1
    made(world)
    decoder.duration_ns = 0
    for number in (20, 30, 40, 50):
        clock.advance(number * PERIOD_NS - clock.now_ns())
        buffer.sample(number, Motion.at_rest(np.zeros(4)))
        made(world, number)

    assert np.allclose(decoder.delays_s, [0.0, 0.04, 0.04, 0.04, 0.0])
    assert maker.slow_count == 1


def test_where_nothing_plays_no_delay_is_planned(world):
    """However slow the decoder is: the arm stands still until the chunk is there."""
    world[2].duration_ns = 5 * PERIOD_NS
    made(world)
    world[3].advance(10 * PERIOD_NS)
    made(world, 25)

    assert world[2].delays_s == [0.0, 0.0]


def test_what_was_begun_before_a_stop_is_dropped(world):
    """The epoch is that of the start of the computation."""
    _, _, decoder, _, buffer = world
    answer = decoder.decode
    decoder.decode = lambda *given: (buffer.clear(), answer(*given))[1]
    made(world)

    assert buffer.sample(11, Motion.at_rest(np.zeros(4))) is None
    assert buffer.counts['old_epoch'] == 1


def test_fingers_that_are_kept_apart_count_as_measured(world):
    """Lag is planned over; a thing between the fingers is not."""
    manifest, _, decoder, _, _ = world
    lagging, blocked = manifest.home - 0.005, manifest.home.copy()
    blocked[3] = 0.012
    made(world, joints=lagging)
    made(world, joints=blocked)

    assert np.array_equal(decoder.joints[0], manifest.home)
    assert np.array_equal(decoder.joints[1], blocked)


def test_an_unusable_chunk_is_refused(world):
    """NaN from a decoder never reaches the buffer."""
    world[2].answer = np.full((50, 4), np.nan)

    with pytest.raises(ChunkRefused, match='not finite'):
        made(world)

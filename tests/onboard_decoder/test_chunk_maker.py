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
        self.tails, self.meanwhile = [], lambda: None
        self.answer = np.zeros((50, 4))

    def decode(self, step, joints, velocities, delay_s, latent=(), tail=None):
        self.clock.advance(self.duration_ns)
        self.delays_s.append(delay_s)
        self.joints.append(joints)
        self.tails.append(tail)
        self.meanwhile()
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


def play(world, first, last):
    """Consume ticks; return the targets (ticks, joints)."""
    return np.array([
        world[-1].sample(tick, Motion.at_rest(np.zeros(4))).positions
        for tick in range(first, last + 1)
    ])


def test_what_plays_until_a_chunk_is_used_stays_as_it_is(world):
    """The frozen prefix: those ticks come from the old chunk, exactly, and then the new one."""
    _, _, decoder, clock, _ = world
    decoder.answer = 0.01 * np.sin(0.05 * np.arange(50))[:, None] * np.ones(4)
    old = decoder.answer
    decoder.duration_ns = 3 * PERIOD_NS + 1
    made(world)
    play(world, 11, 20)
    clock.advance(20 * PERIOD_NS - clock.now_ns())
    decoder.answer = old[13:14] + 0.01 * np.arange(1, 51)[:, None]
    made(world, 20)

    rows = play(world, 21, 40)

    assert decoder.delays_s[-1] == pytest.approx(0.06)
    assert np.array_equal(rows[:3], old[10:13])
    assert np.allclose(rows[-1], decoder.answer[16], atol=1e-6)


def test_a_decoder_is_given_what_plays_from_now_on(world):
    """Row 0 of the tail is where the joints are led now; where nothing plays there is none."""
    _, _, decoder, clock, _ = world
    decoder.answer = 0.001 * np.arange(50)[:, None] * np.ones(4)
    made(world)
    play(world, 11, 20)
    clock.advance(20 * PERIOD_NS - clock.now_ns())
    made(world, 20)

    assert decoder.tails[0] is None
    assert np.allclose(decoder.tails[1][20:40], decoder.answer[29:49])  # behind the cross-fade
    assert np.array_equal(decoder.tails[1][0][:3], decoder.joints[1][:3])


def test_a_chunk_that_comes_later_than_was_counted_on_is_played_and_counted(world):
    """It loses what was consumed, is faded in without a step, and shows as a slow decoder."""
    _, maker, decoder, clock, buffer = world
    decoder.answer = 0.01 * np.ones((50, 4))
    made(world)
    before = play(world, 11, 20)
    clock.advance(20 * PERIOD_NS - clock.now_ns())
    decoder.answer = 0.02 * np.ones((50, 4))
    decoder.meanwhile = lambda: play(world, 21, 26)
    made(world, 20)
    late = maker.late_count, maker.is_slow

    rows = np.concatenate([before, play(world, 27, 60)])
    decoder.meanwhile = lambda: None
    clock.advance(60 * PERIOD_NS - clock.now_ns())
    made(world, 60)

    assert late == (1, True)
    assert np.abs(np.diff(rows, axis=0)).max() < 0.003
    assert np.allclose(rows[-1], 0.02)
    assert (maker.late_count, maker.is_slow) == (1, False)


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

# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
from onboard_decoder.chunk_maker import ChunkMaker
from onboard_decoder.config import ChunkSettings
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.plan import PlanStep, Skill
import pytest
import yaml

from tests.onboard_decoder.gantry import Chunk
from tests.onboard_decoder.servo_world import assert_within_limits, ServoWorld

ARM = load_manifest('tendon_arm')
STEP = PlanStep(Skill.REACH, (0.5, 0.0, 0.2))
LINKS = yaml.safe_load((Path(__file__).parents[2] / 'config/links.yaml').read_text())['links']
DELAYS_MS = (86, 160, 250, 500)  # of the answer itself, without the link
TICKS = 250


def link_delay_s(rng, link):
    """Draw what one question and its answer spend on the air [s]."""
    return sum(
        (way['delay_ms'] + rng.exponential(way.get('jitter_ms', 0.0))) / 1000.0
        * rng.geometric(1 - way.get('loss', 0.0))  # what is lost is sent again
        for way in (link['up'], link['down'])
    )


class Policy:
    """Goes on from where the arm is led, and disagrees with itself each time anew."""

    def __init__(self, rng, spread_rad):
        self.rng, self.spread_rad = rng, spread_rad
        self.speeds = rng.uniform(0.5, 1.5, len(ARM.joints))
        self.width = np.where(np.arange(len(ARM.joints)) == ARM.gripper_index, 0.01, 0.2)

    def decode(self, step, joints, velocities, delay_s, latent=(), tail=None):
        """Swing about home, whatever the delay; continue where the state says."""
        rows = np.arange(1, 51)[:, None] * ARM.control_period_s + delay_s
        middle = ARM.home - self.width / 2
        phase = np.arcsin(np.clip((joints - middle) / self.width, -1, 1))
        phase = np.where(velocities < 0, np.pi - phase, phase)
        swing = middle + self.width * np.sin(phase + self.speeds * rows)
        return Chunk(swing + self.rng.normal(0, self.spread_rad, len(joints)), 9.0)


class SlowWorld(ServoWorld):
    """Asks for the next chunk when the last one has come; it comes after a drawn delay."""

    def __init__(self, policy, delay_s):
        super().__init__(ARM)
        self.delay_s, self.starved, self.fed = delay_s, 0, False
        self.maker = ChunkMaker(
            self, self.servo.buffer, self.clock, ARM, ChunkSettings(decode_slow_s=1.0))
        self.policy, self.played = policy, []

    def decode(self, *given, **named):
        """Let the arm go on while the answer is under way."""
        due_ns = self.clock.now_ns() + round(self.delay_s() * 1e9)
        answer = self.policy.decode(*given, **named)
        while self.clock.now_ns() + self.period_ns <= due_ns:
            self.play()
        return answer

    def play(self):
        """One tick, noting whether there was something to aim at."""
        self.tick()
        has_target = self.servo.buffer.played is not None
        self.starved += self.fed and not has_target
        self.fed |= has_target

    def run(self, ticks):
        """Ask back to back for so many ticks."""
        self.start()
        self.tick()
        while len(self.runs[0]) < ticks:
            servo = self.servo
            self.maker.make(STEP, (), self.intake.joints, servo.motion, servo.last_tick)
            self.play()


@pytest.mark.parametrize('delay_ms', DELAYS_MS)
@pytest.mark.parametrize('name', LINKS)
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), spread_mrad=st.sampled_from([0.0, 20.0]))
def test_no_tick_starves_while_answers_come(name, delay_ms, seed, spread_mrad):
    """Every link, every delay, answers that disagree: always a target, and within every limit."""
    rng = np.random.default_rng(seed)
    world = SlowWorld(
        Policy(rng, spread_mrad / 1000),
        lambda: delay_ms / 1000.0 + link_delay_s(rng, LINKS[name]),
    )

    world.run(TICKS)

    assert world.fed and world.starved == 0
    assert_within_limits(ARM, world.runs[0])


def test_where_answers_stay_away_the_arm_brakes_and_goes_on_with_the_next():
    """A gap longer than a chunk lasts is a stop, not a jump."""
    rng, delays = np.random.default_rng(3), iter([0.16, 0.16, 0.16, 3.0, 0.16, 0.16, 0.16, 0.16])
    world = SlowWorld(Policy(rng, 0.02), lambda: next(delays))

    world.run(200)

    commands = np.array(world.runs[0])
    assert world.starved > 50
    moves = np.abs(np.diff(commands, axis=0)).max(axis=1)
    assert moves.min() < 1e-9 and moves[-10:].max() > 1e-4
    assert_within_limits(ARM, commands)

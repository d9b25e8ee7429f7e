# SPDX-License-Identifier: Apache-2.0
import numpy as np
from onboard_decoder.agent.task_result import TaskOutcome
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.pace import PaceKeeper
import pytest

from tests.onboard_decoder.gantry import (
    Chunk,
    DONE,
    gantry,
    GantryDecoder,
    Lockstep,
    put_plan,
)


def test_pace_falls_with_the_lag_of_the_arm_and_never_to_zero():
    """Full up to half the tolerance; what holds fingers apart does not count."""
    manifest = load_manifest('tendon_arm')
    keeper, home = PaceKeeper(manifest, lag_s=0.1), manifest.home

    def pace(joint, lag, heading=1.0):
        measured = home.copy()
        measured[joint] -= lag
        return keeper.pace(home, measured, np.full(len(home), heading))

    tolerance = 0.1 * manifest.joints[0].max_velocity
    assert pace(0, 0.0) == pace(0, 0.5 * tolerance) == 1.0
    assert pace(0, 0.75 * tolerance) == pytest.approx(0.5)
    assert 0 < pace(0, tolerance) == pace(0, 10 * tolerance) < 0.1
    assert pace(manifest.gripper_index, 0.04) == 1.0
    assert pace(0, 10 * tolerance, heading=-1.0) == 1.0  # back to where the arm is


class SluggishArm(Lockstep):
    """Moves each tick only a part of the way to what is commanded."""

    share = 1.0
    flicker = 1e-9  # the last bit of an encoder is never still

    def step(self):
        before = self.arm.positions.copy()
        command = super().step()
        wanted = self.arm.positions
        self.flicker = -self.flicker
        self.arm.positions = before + self.share * (wanted - before) + self.flicker
        self.arm.positions[3] = wanted[3]
        return command


def commands_with(folder, share):
    """All commands of a task with an arm that follows so well, (ticks, joints)."""
    world = SluggishArm(gantry(folder), [put_plan(), DONE])
    world.arm.thing_m, world.arm.thing_below_m, world.share = 0.02, 0.05, share
    world.robot.ask('put it there')
    result = world.run(limit_s=120).result
    assert (result.outcome, result.attempts) == (TaskOutcome.DONE, 1)
    return np.array(world.arm.commands)


@pytest.mark.parametrize('share', [0.15, 0.1, 0.05])
def test_a_sluggish_arm_gets_there_later_and_does_not_swing(tmp_path, share):
    """The task is done, and no command goes farther than with an arm that follows at once."""
    good, slow = commands_with(tmp_path, 1.0), commands_with(tmp_path, share)

    assert len(slow) > len(good)
    assert (slow.min(axis=0)[:3] >= good.min(axis=0)[:3] - 0.006).all()
    assert (slow.max(axis=0)[:3] <= good.max(axis=0)[:3] + 0.006).all()


class SteadyDecoder(GantryDecoder):
    """Goes straight to the target at a constant speed that the arm could keep."""

    def decode(self, step, joints, velocities, delay_s, latent=(), tail=None):
        whole = super().decode(step, joints, velocities, delay_s, latent, tail)
        way = np.array([0.9, 0.0, 0.3, joints[3]]) - joints
        length = max(float(np.linalg.norm(way)), 1e-9)
        gone = np.minimum(0.4 * (delay_s + self._times) / length, 1.0)[:, None]
        return Chunk(joints + gone * way, whole.remaining_s)


def test_a_blocked_arm_is_not_pushed_harder(tmp_path):
    """The command stops where the tolerated lag ends, and comes back with the retreat."""
    manifest = gantry(tmp_path)
    world = SluggishArm(manifest, [put_plan()])
    world.decoder.decode = SteadyDecoder(manifest).decode
    world.robot.ask('put it there')
    world.run(lambda robot: world.arm.positions[0] > 0.4)
    world.share = 0.0
    world.run(lambda robot: 'arm_lags' in robot.status().faults)

    ahead = []
    while world.robot.status().phase == 'acting':
        ahead.append(world.step().positions[0] - world.arm.positions[0])

    assert max(ahead) < 0.2  # of 0.5 to the target; 0.12 is tolerated, then it creeps
    del world.decoder.decode
    world.share = 1.0
    assert world.run(lambda robot: robot.status().attempt > 1).status().pace == 1.0

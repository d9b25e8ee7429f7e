# SPDX-License-Identifier: Apache-2.0
"""Promises about an arm that is not where it was led last: moved by hand, sunk, begun anew."""

import numpy as np
from onboard_decoder.agent.task_result import TaskOutcome
from onboard_decoder.config import WatchdogLimits
from onboard_decoder.fallback.frozen_senses import FrozenJoints
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.observation_intake import JointState
import pytest

from tests.onboard_decoder.gantry import DONE, gantry, Lockstep, put_plan
from tests.onboard_decoder.servo_world import assert_within_limits, ServoWorld

ARM = load_manifest('tendon_arm')
AWAY = np.array([0.5, 0.2, -0.3, 0.2, 0.0, 0.4, 0.0])


def in_motion():
    """Return a world in which the arm is led somewhere."""
    world = ServoWorld(ARM)
    world.start()
    world.tick()
    world.offer(ARM.home + np.linspace(0, 0.3, 50)[:, None])
    world.tick(20)
    return world


def moving(tmp_path):
    """Return a gantry in the middle of a step."""
    world = Lockstep(gantry(tmp_path), [put_plan(), put_plan(), DONE])
    world.arm.thing_m, world.arm.thing_below_m = 0.02, 0.05
    world.robot.ask('put it there')
    world.run(lambda robot: robot.status().step == 'move' and not robot.is_at_rest)
    return world


@pytest.mark.parametrize('how', ['stale', 'stopped', 'estop'])
def test_the_first_command_to_an_arm_that_was_moved_meanwhile_is_the_measured_pose(how):
    """After old joints, a stop and an emergency stop; a chunk that lies ready changes nothing."""
    world = in_motion()
    if how == 'stale':
        world.has_joints = False
    elif how == 'stopped':
        world.servo.brake()
    else:
        world.servo.is_estopped = True
    world.tick(100)
    world.arm = ARM.home + AWAY
    measured = world.arm.copy()
    world.has_joints, world.servo.is_stopped, world.servo.is_estopped = True, False, False
    world.offer(np.tile(ARM.home, (50, 1)))

    assert np.array_equal(world.tick().positions, measured)
    assert world.servo.moved_count == 1


def test_an_idle_arm_that_is_moved_by_hand_is_not_pulled_back_when_it_has_power_again():
    """Nobody said stop, and its joints were heard all the time."""
    world = in_motion()
    world.tick(100)
    world.share = 0.0
    for share in np.linspace(0, 1, 50):
        world.arm = ARM.home + share * AWAY
        command = world.tick()

    assert np.abs(command.positions - world.arm)[:-1].max() < 0.13
    world.offer(np.tile(ARM.home, (50, 1)))
    world.share = 1.0
    assert np.abs(world.tick().positions - ARM.home - AWAY)[:-1].max() < 0.13


def test_while_joints_are_old_a_resting_arm_is_commanded_nothing():
    """It may be anywhere: whoever gives it power again must not find the old pose waiting."""
    world = in_motion()
    world.has_joints = False
    world.tick(100)

    assert world.tick() is None


def test_an_arm_that_sinks_while_it_is_stopped_is_not_pulled_back():
    """The commands follow it, so that nothing jumps when the drives have power again."""
    world = in_motion()
    world.servo.is_estopped = True
    world.tick(60)
    world.share = 0.0
    for _ in range(200):
        world.arm = world.arm + 0.004 * np.array([0, 1, 0, 0, 0, 0, 0])
        command = world.tick()

    assert abs(command.positions[1] - world.arm[1]) < 0.13


@pytest.mark.parametrize('how', ['stale', 'stopped'])
def test_an_arm_that_is_about_where_it_was_led_goes_on_from_the_command(how):
    """Beginning at the measured pose would let the fingers drop what they hold."""
    world = in_motion()
    world.has_joints, world.servo.is_stopped = how != 'stale', how == 'stopped'
    world.tick(60)
    world.arm = world.arm - 0.02
    commanded = world.runs[-1][-1]
    world.has_joints, world.servo.is_stopped = True, False

    assert np.allclose(world.tick().positions, commanded, atol=1e-9)
    assert world.servo.moved_count == 0


def test_a_step_from_which_the_arm_was_moved_fails_and_is_not_gone_on_with(tmp_path):
    """What was safe from where it was may not be from where it is: up, home, and look again."""
    world = moving(tmp_path)
    world.has_joints = False
    for _ in range(60):
        world.step()
    world.arm.positions = world.arm.positions + [-0.3, 0.3, 0.0, 0.0]
    moved = world.arm.positions.copy()
    world.has_joints = True

    assert np.allclose(world.step().positions, moved, atol=1e-9)
    assert world.run().result.outcome is TaskOutcome.DONE
    failures = [e['failure'] for e in world.robot.events if e['event'] == 'step' and e['failure']]
    assert 'found elsewhere' in failures[0]


def test_a_step_during_which_commands_were_off_fails_and_is_not_gone_on_with(tmp_path):
    """Nobody knows who moved the arm between two activations."""
    world = moving(tmp_path)
    world.robot.deactivate()
    for _ in range(10):
        assert world.step() is None
    world.robot.activate()

    assert world.run().result.outcome is TaskOutcome.DONE
    failures = [e['failure'] for e in world.robot.events if e['event'] == 'step' and e['failure']]
    assert 'nothing was commanded meanwhile' in failures[0]


def test_activating_an_active_robot_changes_nothing(tmp_path):
    """The arm in full motion goes on within its limits."""
    world = moving(tmp_path)
    for _ in range(30):
        world.robot.activate()
        world.step()

    assert_within_limits(world.robot.manifest, world.arm.commands)
    assert world.run().result.outcome is TaskOutcome.DONE


def test_commands_that_begin_anew_at_the_measured_pose_do_not_make_joints_frozen():
    """An arm that rests without noise has the same joints to the last bit, and rightly so."""
    frozen = FrozenJoints(ARM, WatchdogLimits())
    joints = ARM.home + AWAY
    for i in range(100):
        felt = JointState(i * 20_000_000, joints, 0 * joints)
        frozen.look(felt, ARM.home if i < 2 else joints)

    assert not frozen.is_frozen

# SPDX-License-Identifier: Apache-2.0
"""Faults as the ROS graph sees them: topics and services in, /diagnostics and status out."""

import numpy as np
from onboard_decoder.fallback.watchdog import Fault
import pytest
from std_msgs.msg import Bool

from tests.ros.onboard_world import World

pytestmark = [
    pytest.mark.ros,
    pytest.mark.filterwarnings("ignore:module 'sre_:DeprecationWarning"),
]


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A node with an arm and a scripted backbone, in the middle of a motion."""
    world = World(tmp_path, monkeypatch)
    world.arm.say('put it there')
    world.arm.wait_step('move')
    yield world
    world.close()


def diagnosed(world, fault):
    """Return level and values of a fault in the newest diagnostics."""
    name = f'onboard_node: fault {fault}'
    for entry in world.arm.diagnostics[-1].status if world.arm.diagnostics else ():
        if entry.name == name:
            return entry.level, {pair.key: pair.value for pair in entry.values}
    return None, {}


def wait_for(world, fault, is_there):
    """Wait until the diagnostics say so; return level and values."""
    world.arm.spin_until(lambda: diagnosed(world, fault)[1].get('is_there') == str(is_there))
    return diagnosed(world, fault)


def test_every_fault_of_the_table_is_in_the_diagnostics(world):
    """Each under its own name, with its reaction, whether it is there or not."""
    world.arm.spin_until(lambda: world.arm.diagnostics)

    for fault in Fault:
        level, values = diagnosed(world, fault.value)
        assert level is not None, fault
        assert set(values) == {'is_there', 'lasts_s', 'count', 'reaction'}


def test_the_emergency_stop_is_a_topic_that_latches(world):
    """Pressed: brake and refuse; released: rest; a new instruction: go on."""
    estop = world.arm.node.create_publisher(Bool, 'estop', 10)
    world.arm.spin_until(lambda: estop.get_subscription_count() > 0)
    estop.publish(Bool(data=True))
    level, values = wait_for(world, 'estop', True)
    robot = world.node._runtime.robot
    world.arm.spin_until(lambda: robot.is_at_rest)
    world.arm.say('put it there')
    world.arm.spin_until(lambda: 'emergency stop' in robot.notice)
    rested = robot.tick().positions
    estop.publish(Bool(data=False))
    wait_for(world, 'estop', False)

    assert (level, values['reaction'], values['count']) == (b'\x02', 'brake', '1')
    assert np.allclose(robot.tick().positions, rested)
    world.arm.say('put it there')
    assert world.arm.result()['outcome'] == 'done'


def test_a_silent_backbone_shows_for_how_long_and_is_forgotten_when_it_speaks(world):
    """Warning while it is there; afterwards the count remains. No restart of anything."""
    world.planner.hush()
    level, values = wait_for(world, 'server_silent', True)
    assert (level, values['reaction']) == (b'\x01', 'finish_step')
    world.arm.spin_until(
        lambda: world.arm.statuses[-1]['faults'].get('server_silent') == 'finish_step'
        or world.arm.statuses[-1]['faults'].get('server_gone') == 'finish_step')
    world.planner.speak()
    _, values = wait_for(world, 'server_silent', False)

    assert int(values['count']) >= 1
    assert world.arm.result()['outcome'] == 'done'


def test_a_paused_simulator_is_diagnosed_while_it_stands(tmp_path, monkeypatch):
    """Status and diagnostics go on, say what is missing, and the task is done after the pause."""
    world = World(tmp_path, monkeypatch, use_sim_time=True)
    try:
        world.arm.say('put it there')
        world.arm.wait_step('move')
        world.arm.is_paused = True
        level, values = wait_for(world, 'joints_stale', True)
        robot = world.node._runtime.robot
        world.arm.spin_until(lambda: robot.is_at_rest)
        told = len(world.arm.statuses)
        world.arm.spin_until(lambda: len(world.arm.statuses) > told + 5)
        assert (level, values['reaction']) == (b'\x02', 'brake')
        assert 'joints_stale' in world.arm.statuses[-1]['faults']
        world.arm.is_paused = False
        assert world.arm.result()['outcome'] == 'done'
    finally:
        world.close()

# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
from onboard_decoder.agent.task_result import TaskOutcome
from onboard_decoder.agent.transcript import Transcript
from onboard_decoder.config import RobotSettings
from onboard_decoder.errors import StopPressed
from onboard_decoder.fallback.watchdog import Fault, REACTIONS
from onboard_decoder.planner_port import Link
from onboard_decoder.recorder import Recorder
import pytest

from tests.onboard_decoder.gantry import DONE, gantry, Lockstep, put_plan


@pytest.fixture
def world(tmp_path):
    """A gantry in the middle of a motion."""
    world = Lockstep(gantry(tmp_path), [put_plan(), put_plan(), DONE])
    world.arm.thing_m, world.arm.thing_below_m = 0.02, 0.05
    world.robot.ask('put it there')
    world.run(lambda robot: robot.status().step == 'move' and world.arm.positions[1] < 0.05)
    return world


def steps(world, count=100):
    """Let some time pass; return what was commanded, (ticks, joints)."""
    return np.array([world.step().positions for _ in range(count)])


def test_the_emergency_stop_brakes_within_the_limits_and_ends_the_task(world):
    """From the tick on at which it is pressed; the arm stays where it came to rest."""
    world.robot.estop(True)
    moved = steps(world)

    speeds = np.abs(np.diff(moved, axis=0)) / world.robot.manifest.control_period_s
    assert (speeds <= world.robot.manifest.column('max_velocity') + 1e-9).all()
    assert np.ptp(moved[-50:], axis=0).max() < 1e-6
    assert world.robot.status().faults['estop'] == 'brake'
    assert world.robot.result.outcome is TaskOutcome.STOPPED


def test_while_it_is_pressed_instructions_are_refused_with_the_remedy(world):
    """Nothing moves, and nothing waits to move."""
    world.robot.estop(True)
    world.step()
    with pytest.raises(StopPressed, match='release it'):
        world.robot.ask('put it there')
    before = steps(world)[-1]
    world.robot.estop(False)

    assert np.allclose(steps(world), before, atol=1e-6)
    assert not world.robot.is_busy
    assert 'emergency stop' in world.robot.notice


def test_an_instruction_that_waited_when_it_was_pressed_is_not_carried_out(world):
    """Whatever the order in which two threads said it."""
    world.robot.ask('put it there')
    world.robot.estop(True)
    steps(world)
    world.robot.estop(False)
    steps(world)

    assert not world.robot.is_busy
    assert world.robot.is_at_rest


def test_only_release_and_a_new_instruction_let_it_go_on(world):
    """Either alone does nothing."""
    world.robot.estop(True)
    steps(world)
    world.robot.estop(False)
    world.robot.estop(False)
    rested = steps(world)
    assert np.ptp(rested, axis=0).max() < 1e-6
    assert 'estop' not in world.robot.status().faults
    assert world.robot.status().faults['stopped'] == 'brake'

    world.robot.ask('put it there')

    assert world.run().result.outcome is TaskOutcome.DONE


def test_pressing_again_and_again_counts_as_one(world):
    """Publishers repeat themselves."""
    for _ in range(5):
        world.robot.estop(True)
        world.step()

    assert world.robot.status().fault_log['estop'].count == 1


def test_each_fault_is_written_down_when_it_comes_and_when_it_is_over(tmp_path):
    """In the transcript and in the recording, with its reaction; the status keeps count."""
    transcript = Transcript(tmp_path / 'events.jsonl')
    world = Lockstep(gantry(tmp_path), [put_plan(), DONE], sinks=[transcript])
    recorder = Recorder(tmp_path / 'run.mcap', world.clock)
    world.robot._sinks = (*world.robot._sinks, recorder)
    world.robot.ask('put it there')
    for _ in range(2):
        steps(world, 20)
        world.port.link = Link.SILENT
        steps(world, 20)
        world.port.link = Link.READY
    steps(world, 1)
    transcript.close()
    recorder.close()

    events = [json.loads(line) for line in (tmp_path / 'events.jsonl').read_text().splitlines()]
    ours = [event for event in events if event.get('fault') == 'server_silent']
    assert [event['event'] for event in ours] == ['fault', 'fault_over'] * 2
    assert ours[0]['reaction'] == 'finish_step'
    assert ours[0]['detail'] == 'as set by the test'
    assert ours[1]['lasted_s'] == pytest.approx(0.4)
    assert world.robot.status().fault_log['server_silent'].count == 2
    assert world.robot.status().fault_log['server_silent'].lasts_s is None
    assert b'server_silent' in _recorded(tmp_path / 'run.mcap')


def _recorded(path):
    """Return all messages of a recording."""
    from mcap.reader import make_reader

    with path.open('rb') as file:
        return b''.join(message.data for _, _, message in make_reader(file).iter_messages())


def test_a_silent_server_lets_the_step_finish_and_no_other_begin(world):
    """Even a step that was to come at once; with its first word the robot goes on."""
    at = world.robot.status().step_index
    world.port.link = Link.SILENT
    held = steps(world, 300)

    assert world.robot.status().step_index == at + 1
    assert np.ptp(held[-50:], axis=0).max() < 1e-3
    world.port.link = Link.READY
    assert world.run().result.outcome is TaskOutcome.DONE


def test_no_plan_for_long_is_a_fault_of_its_own(tmp_path):
    """Over several turns that fail, until there is one."""
    settings = RobotSettings().changed({'watchdog.no_plan_s': 2.0})
    world = Lockstep(gantry(tmp_path), ['overloaded'] * 4 + [put_plan(), DONE], settings)
    world.arm.thing_m, world.arm.thing_below_m = 0.02, 0.05
    world.robot.ask('put it there')
    world.run(lambda robot: 'no_plan' in robot.status().faults)

    assert REACTIONS[Fault.NO_PLAN].name == 'HOLD'
    assert world.robot.is_at_rest
    assert world.run().result.outcome is TaskOutcome.DONE
    assert 'no_plan' not in world.robot.status().faults

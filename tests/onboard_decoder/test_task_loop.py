# SPDX-License-Identifier: Apache-2.0
import numpy as np
from onboard_decoder.agent.task_result import TaskOutcome
from onboard_decoder.config import RobotSettings
from onboard_decoder.errors import InstructionRefused
from onboard_decoder.plan import ActionPlan, Outcome, PlanStep, Skill
from onboard_decoder.planner_port import Link
import pytest

from tests.onboard_decoder.gantry import DONE, gantry, Lockstep, pick_plan, put_plan, REFUSED


@pytest.fixture
def manifest(tmp_path):
    """The gantry."""
    return gantry(tmp_path)


def with_thing(world):
    """Lay a thing where the gripper closes."""
    world.arm.thing_m, world.arm.thing_below_m = 0.02, 0.05
    return world


def skills(robot):
    """Names of the steps that succeeded or not, in order."""
    return [event['progress'] for event in robot.events if event['event'] == 'step']


def test_a_plan_is_executed_step_by_step_and_confirmed_by_a_second_look(manifest):
    """Plan, execute, look again: the second answer says done."""
    world = with_thing(Lockstep(manifest, [put_plan(), DONE]))
    world.robot.ask('put it there')

    result = world.run().result

    assert (result.outcome, result.attempts, result.turns) == (TaskOutcome.DONE, 1, 2)
    assert skills(world.robot) == ['step_done'] * 6 + ['all_done']
    assert world.port.turns[0].instruction == world.port.turns[1].instruction == 'put it there'
    assert np.allclose(world.arm.positions[:3], manifest.home[:3], atol=0.02)


def test_a_pick_is_done_when_the_gripper_holds_it(manifest):
    """No second look is needed for what the fingers feel."""
    world = with_thing(Lockstep(manifest, [pick_plan()]))
    world.robot.ask('pick it')

    result = world.run().result

    assert (result.outcome, result.turns) == (TaskOutcome.DONE, 1)
    assert world.arm.has_thing


def test_a_refusal_at_first_sight_is_refused_with_its_reason(manifest):
    """Nothing moves, and people read why."""
    world = Lockstep(manifest, [REFUSED])
    world.robot.ask('pick the red cube')

    result = world.run().result

    assert (result.outcome, result.reason) == (TaskOutcome.REFUSED, 'There is no red cube.')
    assert np.ptp(np.array(world.arm.commands), axis=0).max() == 0.0


def test_an_empty_grasp_retreats_and_tries_again(manifest):
    """Fingers that close on nothing: up, home, look, new plan; then it works."""
    world = Lockstep(manifest, [put_plan(), put_plan((0.5, 0.5)), DONE])
    world.robot.ask('put it there')
    world.run(lambda robot: robot.status().phase == 'retreating')
    assert world.robot.status().step == Skill.LIFT.value
    world.run(lambda robot: robot.status().phase == 'looking')
    with_thing(world)

    result = world.run().result

    assert (result.outcome, result.attempts) == (TaskOutcome.DONE, 2)


def test_a_plan_that_leads_out_of_the_workspace_is_not_begun(manifest):
    """It counts as an attempt, the target is named, and the arm does not move."""
    below = ActionPlan(Outcome.STEPS, (PlanStep(Skill.REACH, (0.5, 0.1, -0.2)),))
    settings = RobotSettings().changed({'limits.max_attempts': 2})
    world = Lockstep(manifest, [below], settings)
    world.robot.ask('dig')

    result = world.run().result

    assert (result.outcome, result.turns) == (TaskOutcome.FAILED, 3)
    assert 'target (0.5, 0.1, -0.2) m is outside the workspace' in result.reason
    assert np.ptp(np.array(world.arm.commands), axis=0).max() == 0.0


def test_attempts_are_bounded(manifest):
    """A backbone that never sees success does not keep the arm busy for ever."""
    settings = RobotSettings().changed({'limits.max_attempts': 2})
    world = with_thing(Lockstep(manifest, [put_plan()], settings))
    world.robot.ask('put it there')

    result = world.run(limit_s=120).result

    assert (result.outcome, result.attempts, result.turns) == (TaskOutcome.FAILED, 2, 3)


def test_a_thing_lost_on_the_way_fails_the_step(manifest):
    """Fingers that close during the carrying end the attempt."""
    world = with_thing(Lockstep(manifest, [put_plan(), DONE]))
    world.robot.ask('put it there')
    world.run(lambda robot: robot.status().step == 'move')
    world.arm.thing_m = 0.0

    world.run()

    failures = [e['failure'] for e in world.robot.events if e['event'] == 'step' and e['failure']]
    assert failures == ['move 3: the gripper holds nothing']


def test_failed_turns_are_repeated_with_growing_pauses_and_fresh_images(manifest):
    """Each question has a new id and a new image; the arm holds meanwhile."""
    world = Lockstep(manifest, ['overloaded', 'overloaded', 'overloaded', REFUSED])
    world.robot.ask('pick it')

    result = world.run().result

    assert result.outcome is TaskOutcome.REFUSED
    turns = world.port.turns
    assert len({turn.turn_id for turn in turns}) == len(turns) == 4
    epochs = [turn.observation_epoch for turn in turns]
    assert epochs == sorted(set(epochs))
    times = [e['t_s'] for e in world.robot.events if e['event'] == 'turn']
    assert np.all(np.diff(np.diff(times)) > 0)


def test_no_image_ends_the_task_in_words(manifest):
    """A camera that is silent is named."""
    world = Lockstep(manifest, [put_plan()])
    world.has_images = False
    world.robot.ask('put it there')
    world.run(lambda robot: 'image_stale' in robot.status().faults)

    result = world.run().result

    assert result.outcome is TaskOutcome.FAILED
    assert 'no camera image' in result.reason


def test_no_backbone_is_waited_for_and_then_named(manifest):
    """The task waits as long as it is told to, then gives the link's own reason."""
    settings = RobotSettings().changed({'limits.planner_wait_s': 3.0})
    world = Lockstep(manifest, [put_plan()], settings)
    world.port.link = Link.LOST
    world.robot.ask('put it there')

    result = world.run().result

    assert result.outcome is TaskOutcome.FAILED
    assert 'as set by the test' in result.reason
    assert result.duration_s > 3.0


def test_a_link_that_breaks_lets_the_step_finish_and_no_other_start(manifest):
    """Server gone: finish the step, hold; back again: go on."""
    world = with_thing(Lockstep(manifest, [put_plan(), DONE]))
    world.robot.ask('put it there')
    world.run(lambda robot: robot.status().step == 'lift' and world.arm.positions[2] > 0.05)
    world.port.link = Link.DEGRADED
    for _ in range(300):
        world.step()
    status = world.robot.status()
    assert status.step_index == 3  # the move, not begun
    assert status.faults['server_gone'] == 'finish_step'
    assert np.ptp(np.array(world.arm.commands[-50:]), axis=0).max() < 1e-3
    world.port.link = Link.READY

    assert world.run().result.outcome is TaskOutcome.DONE


def test_a_plan_in_hand_is_not_begun_without_a_server(manifest):
    """The answer came just before the link went silent: hold, and begin when it speaks again."""
    world = with_thing(Lockstep(manifest, [put_plan(), DONE]))
    world.robot.ask('put it there')
    world.run(lambda robot: bool(world.port.turns))
    world.port.link = Link.SILENT
    for _ in range(100):
        world.step()
    assert world.robot.status().step_index == 0
    assert np.ptp(np.array(world.arm.commands), axis=0).max() < 1e-6
    world.port.link = Link.READY

    assert world.run().result.outcome is TaskOutcome.DONE


def test_stop_brakes_and_ends_the_task(manifest):
    """The arm comes to rest; the next instruction works."""
    world = with_thing(Lockstep(manifest, [put_plan(), put_plan(), DONE]))
    world.robot.ask('put it there')
    world.run(lambda robot: robot.status().step == 'move' and not robot.is_at_rest)
    world.robot.stop()

    result = world.run().result
    for _ in range(50):
        world.step()

    assert result.outcome is TaskOutcome.STOPPED
    assert world.robot.is_at_rest
    assert world.robot.status().faults['stopped'] == 'brake'
    world.robot.ask('put it there')
    assert world.run().result.outcome is TaskOutcome.DONE


def test_stale_joints_brake_and_fresh_ones_go_on(manifest):
    """Without joints nothing is decoded and the arm rests; afterwards the task ends well."""
    world = with_thing(Lockstep(manifest, [put_plan(), DONE]))
    world.robot.ask('put it there')
    world.run(lambda robot: robot.status().step == 'move' and not robot.is_at_rest)
    world.has_joints = False
    for _ in range(60):
        world.step()
    assert world.robot.is_at_rest
    assert world.robot.status().faults['joints_stale'] == 'brake'
    calls = world.decoder.calls
    world.step()
    assert world.decoder.calls == calls
    world.has_joints = True

    assert world.run().result.outcome is TaskOutcome.DONE


@pytest.mark.parametrize('text', ['', '   ', 'x' * 10_000, 'pick\x00it'])
def test_instructions_that_no_backbone_takes_are_refused_at_once(manifest, text):
    """Empty, too long, not text: one sentence with the limit."""
    world = Lockstep(manifest, [DONE])

    with pytest.raises(InstructionRefused, match='1 to 200 characters'):
        world.robot.ask(text)
    assert not world.robot.is_busy


def test_a_new_instruction_replaces_the_old_one(manifest):
    """The question under way is withdrawn."""
    world = Lockstep(manifest, [None, REFUSED])
    world.robot.ask('first')
    world.run(lambda robot: robot.status().waits_for == 'answer')
    world.robot.ask('second')

    result = world.run().result

    assert (result.instruction, result.outcome) == ('second', TaskOutcome.REFUSED)
    assert world.port.cancelled == ['turn-1']


def test_two_runs_give_the_same_commands(manifest):
    """Simulated time decides everything."""
    runs = []
    for _ in range(2):
        world = with_thing(Lockstep(manifest, [put_plan(), DONE]))
        world.robot.ask('put it there')
        world.run()
        runs.append(np.array(world.arm.commands))

    assert np.array_equal(runs[0], runs[1])


def test_stages_add_up_to_the_wall_clock(manifest):
    """Every stage up to the first command is there, and nothing is left over."""
    world = with_thing(Lockstep(manifest, [put_plan(), DONE]))
    world.robot.ask('put it there')
    world.run()
    world.robot.flush_traces()

    first, second = world.robot.take_traces()

    stages = first.stages_ns()
    assert first.wall_ns == sum(v for k, v in stages.items() if k != 'motion_onset')
    assert stages['decode'] == 50_000_000
    assert stages['uplink'] == stages['downlink'] > 0
    assert 'motion_onset' in stages
    assert second.wall_ns is None
    assert first.to_record()['within'] == {'backbone': True, 'end_to_end': True}

# SPDX-License-Identifier: Apache-2.0
from dataclasses import fields
import json
import time

import numpy as np
from onboard_decoder import parameters_ros
from onboard_decoder.config import RobotSettings
from protos import plan_pb2, planner_pb2
import pytest
from std_srvs.srv import Trigger
import yaml

from tests.ros.onboard_world import plans, TIMEOUT_S, World

pytestmark = [
    pytest.mark.ros,
    # What rclpy imports to know its messages uses modules that Python has deprecated.
    pytest.mark.filterwarnings("ignore:module 'sre_:DeprecationWarning"),
]


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Make a world; end it after the test."""
    worlds = []

    def made(**changes):
        worlds.append(World(tmp_path, monkeypatch, **changes))
        return worlds[-1]

    yield made
    for world in worlds:
        world.close()


def test_an_instruction_on_a_topic_becomes_a_task_done(make, tmp_path):
    """Words in, motion out, result in the status, stages that add up in the trace file."""
    world = make(latency_path=str(tmp_path / 'run' / 'latency.jsonl'))
    world.arm.say('put it there')

    result = world.arm.result()

    assert (result['outcome'], result['instruction']) == ('done', 'put it there')
    assert np.allclose(world.arm.mirror.positions[:3], world.manifest.home[:3], atol=0.02)
    assert world.planner.turns[0].observation.joint_positions[2] == pytest.approx(0.3)
    world.node.close()
    lines = (tmp_path / 'run' / 'latency.jsonl').read_text().splitlines()
    first = json.loads(lines[0])
    total = sum(v for name, v in first['stages_ns'].items() if name != 'motion_onset')
    assert abs(first['wall_ns'] - total) < 2_000_000
    assert set(first['stages_ns']) >= {'capture', 'encode', 'uplink', 'decoder', 'publish'}


def test_a_question_of_the_agent_is_answered_on_a_topic(make):
    """Published once, shown in the status, answered by a person, told to the backbone."""
    ask = plan_pb2.ActionPlan(outcome=plan_pb2.PLAN_OUTCOME_ASK, call=plan_pb2.ToolCall(
        tool='TOOL_ASK', question='Can you clear the blue bin?'))
    stop = plan_pb2.ActionPlan(
        outcome=plan_pb2.PLAN_OUTCOME_REFUSED, reason='It is enough.',
        call=plan_pb2.ToolCall(tool='TOOL_STOP'))
    world = make(answers=[ask, stop], **{'agent.mode': 'react'})
    world.arm.say('put it there')
    world.arm.spin_until(lambda: world.arm.questions)
    world.arm.spin_until(
        lambda: world.arm.statuses and world.arm.statuses[-1]['question'])
    world.arm.answer('yes')

    result = world.arm.result()

    assert world.arm.questions == ['Can you clear the blue bin?']
    assert (result['outcome'], result['end']) == ('refused', 'refused')
    entry = world.planner.turns[1].memory.entries[0]
    assert entry.result == planner_pb2.STEP_RESULT_CLEARED


def test_every_trajectory_ends_at_rest(make):
    """A controller that hears nothing more brakes by itself."""
    world = make()
    world.arm.say('put it there')
    world.arm.wait_step('move')

    moving = [t for t in world.arm.trajectories if len(t.points) == 2]
    assert moving
    for trajectory in world.arm.trajectories:
        assert not any(trajectory.points[-1].velocities)
        times = [p.time_from_start.sec + p.time_from_start.nanosec / 1e9
                 for p in trajectory.points]
        assert times == sorted(set(times)) and times[0] > 0


def test_compressed_images_and_plain_positions_work_alike(make):
    """The other camera transport and the other controller, by parameter."""
    world = make(image_transport='compressed', command_interface='forward_position')
    world.arm.say('put it there')

    assert world.arm.result()['outcome'] == 'done'
    assert not world.arm.trajectories


def test_simulated_time_is_honoured(make, tmp_path):
    """Stamps of a simulation make neither joints nor images old; the loop keeps real time."""
    world = make(use_sim_time=True, latency_path=str(tmp_path / 'latency.jsonl'))
    world.arm.say('put it there')

    assert world.arm.result()['outcome'] == 'done'
    world.node.close()
    first = json.loads((tmp_path / 'latency.jsonl').read_text().splitlines()[0])
    assert 0 <= first['stages_ns']['capture'] < 5_000_000_000


def test_the_stop_service_brakes(make):
    """Stopped is a result, and the arm stays where it came to rest."""
    world = make()
    world.arm.say('put it there')
    world.arm.wait_step('move')
    client = world.arm.node.create_client(Trigger, 'onboard_node/stop')
    assert client.wait_for_service(TIMEOUT_S)

    answer = client.call_async(Trigger.Request())

    world.arm.spin_until(answer.done)
    assert answer.result().success
    assert world.arm.result()['outcome'] == 'stopped'
    world.arm.spin_until(lambda: world.node._runtime.robot.is_at_rest)


def test_a_backbone_killed_in_mid_motion_is_waited_for(make):
    """Commands never pause, the arm holds, and after the restart the task goes on."""
    world = make()
    world.arm.say('put it there')
    world.arm.wait_step('lift')
    loop = world.node._runtime.loop

    world.planner.kill()
    world.arm.spin_until(
        lambda: world.arm.statuses[-1]['faults'].get('server_gone') == 'finish_step')
    world.arm.spin_until(lambda: world.node._runtime.robot.is_at_rest)
    before = loop.statistics().tick_count
    world.arm.spin_until(lambda: loop.statistics().tick_count > before + 50)
    still = np.array(world.arm.mirror.commands[-20:])
    assert np.ptp(still, axis=0).max() < 1e-3
    assert not world.arm.statuses[-1]['result']
    world.planner._script = lambda turn: plans()[1]
    world.planner.start()

    assert world.arm.result()['outcome'] == 'done'
    assert loop.statistics().error_count == 0


def test_joints_that_fall_silent_are_reported_and_braked(make):
    """/diagnostics says error and why."""
    world = make()
    world.arm.say('put it there')
    world.arm.wait_step('move')
    world.arm.has_joints = False

    def task():
        entries = {e.name: e for d in world.arm.diagnostics[-1:] for e in d.status}
        return entries.get('onboard_node: task')

    world.arm.spin_until(lambda: task() and 'joints_stale: brake' in task().message)
    assert task().level == b'\x02'
    world.arm.spin_until(lambda: world.node._runtime.robot.is_at_rest)


def test_a_camera_of_another_size_is_named_in_the_status(make):
    """One sentence with both sizes; the task ends for want of an image."""
    world = make(**{'limits.look_wait_s': 0.5})
    world.arm.image = np.zeros((48, 64, 3), np.uint8)
    world.arm.say('put it there')

    result = world.arm.result()

    assert result['outcome'] == 'failed'
    assert '64x48' in world.arm.statuses[-1]['notice']
    assert '32x24' in world.arm.statuses[-1]['notice']


def test_an_instruction_that_cannot_be_sent_is_refused_and_the_node_lives(make):
    """Ten thousand characters: a notice, no turn, and the next instruction works."""
    world = make()
    world.arm.say('x' * 10_000)
    world.arm.spin_until(
        lambda: world.arm.statuses and '10000 characters' in world.arm.statuses[-1]['notice'])
    assert not world.planner.turns

    world.arm.say('put it there')

    assert world.arm.result()['outcome'] == 'done'


def test_an_inactive_node_commands_nothing_and_can_be_activated_again(make):
    """Deactivate brakes and holds; activate starts at the measured pose."""
    world = make()
    world.arm.say('put it there')
    world.arm.wait_step('move')

    world.node.trigger_deactivate()
    assert world.node._runtime.robot.is_at_rest
    time.sleep(0.1)
    count = len(world.arm.mirror.commands)
    pose = world.arm.mirror.positions.copy()
    time.sleep(0.2)
    assert len(world.arm.mirror.commands) == count
    world.node.trigger_activate()
    world.arm.spin_until(lambda: len(world.arm.mirror.commands) > count + 3)

    assert np.allclose(world.arm.mirror.commands[count], pose, atol=1e-6)


def test_parameters_have_descriptions_and_the_yaml_lists_all_defaults(make, root):
    """config/onboard.yaml, the declarations and the settings say the same."""
    world = make()
    listed = yaml.safe_load((root / 'config' / 'onboard.yaml').read_text())
    listed = listed['/**']['ros__parameters']
    flat = {
        (f'{key}.{name}' if isinstance(value, dict) else key): entry
        for key, value in listed.items()
        for name, entry in (value.items() if isinstance(value, dict) else [('', value)])
    }
    defaults = {name: entry[0] for name, entry in parameters_ros._DECLARED.items()}
    for group in fields(RobotSettings):
        for entry in fields(getattr(RobotSettings(), group.name)):
            defaults[f'{group.name}.{entry.name}'] = entry.default

    assert flat == defaults
    for name in flat:
        assert world.node.describe_parameter(name).description

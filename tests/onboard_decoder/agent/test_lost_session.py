# SPDX-License-Identifier: Apache-2.0
"""The agent's memory outlives the backbone that held it: real client, real server, killed."""

import time

import numpy as np
from onboard_decoder.agent.records import remembered
from onboard_decoder.agent.task_result import TaskOutcome
from onboard_decoder.config import RobotSettings
from onboard_decoder.planner_client import LinkSettings, PlannerClient
from onboard_decoder.planner_port import Link
from onboard_decoder.robot import Robot
from protos import plan_pb2, planner_pb2

from tests.fakes.scripted_planner import plan_of, ScriptedPlanner, step
from tests.onboard_decoder.gantry import gantry, Lockstep

DONE = plan_pb2.ActionPlan(
    outcome=plan_pb2.PLAN_OUTCOME_DONE, reason='There.', call=plan_pb2.ToolCall(tool='TOOL_DONE')
)


def grasp():
    """Reach, grasp, lift."""
    plan = plan_of(
        step('reach', (0.5, 0.1, 0.2)),
        step('grasp', (0.5, 0.1, 0.02), gripper_opening=0.0, success='HOLDING'),
        step('lift', (0.5, 0.1, 0.2), gripper_opening=0.0, success='HOLDING'),
    )
    plan.call.tool, plan.call.object = plan_pb2.TOOL_GRASP, 'red cube'
    return plan


def place():
    """Move, place, lift, home."""
    plan = plan_of(
        step('move', (0.4, -0.2, 0.2), gripper_opening=0.0, success='HOLDING'),
        step('place', (0.4, -0.2, 0.1), success='RELEASED'),
        step('lift', (0.4, -0.2, 0.2)), step('home'),
    )
    plan.call.tool, plan.call.target = plan_pb2.TOOL_PLACE, 'blue bin'
    return plan


def script(turn):
    """Choose by the memory that the turn carries, and by nothing else."""
    memory = turn.memory
    if memory.purpose == planner_pb2.PURPOSE_CHECK:
        return plan_pb2.ActionPlan(outcome=plan_pb2.PLAN_OUTCOME_DONE, reason='Yes.')
    placed = any(e.result == planner_pb2.STEP_RESULT_PLACED for e in memory.entries)
    return DONE if placed else place() if memory.hand_holds else grasp()


class RealLink(Lockstep):
    """The lockstep world in mode react with a network client."""

    def __init__(self, manifest, client):
        super().__init__(manifest, [None])
        self.arm.thing_m, self.arm.thing_below_m = 0.02, 0.05
        self.robot = Robot(
            manifest, client, self.decoder, self.clock,
            RobotSettings().changed({'agent.mode': 'react'}),
            publish=lambda command: self.arm.command(command.positions),
        )
        self.robot.activate()

    def step(self):
        """One period, a little real time: the network's threads need some."""
        time.sleep(0.0005)
        return super().step()


def test_a_session_that_the_backbone_lost_is_rebuilt_and_no_tick_is_missed(tmp_path):
    """Killed while the arm carries: the next turn brings the whole trial to a new session."""
    manifest = gantry(tmp_path)
    with ScriptedPlanner(script, image_size=(16, 12)) as planner, PlannerClient(
        planner.address, 'robot-1', manifest, LinkSettings(lost_after_s=600.0)
    ) as client:
        world = RealLink(manifest, client)
        world.robot.ask('put the red cube in the blue bin')
        world.run(lambda robot: robot.status().step == 'move' and not robot.is_at_rest)
        planner.kill()
        while client.state().link is not Link.DEGRADED:
            assert world.step() is not None
        for _ in range(100):
            assert world.step() is not None
        asked = len(planner.turns)
        planner.start()
        result = world.run().result

    assert (result.outcome, result.attempts, client.session_count) == (TaskOutcome.DONE, 1, 2)
    sent = planner.turns[asked].memory
    assert sent.first_entry == 0
    assert [entry.step_id for entry in sent.entries] == [1, 2]
    assert [entry.result for entry in sent.entries] == [
        planner_pb2.STEP_RESULT_HELD, planner_pb2.STEP_RESULT_PLACED]
    commands = np.array(world.arm.commands)
    speeds = np.abs(np.diff(commands, axis=0)) / manifest.control_period_s
    assert (speeds <= manifest.column('max_velocity') * (1 + 1e-9)).all()
    told = remembered(world.robot.events)
    assert [entry.result.value for entry in told.memory.entries] == ['held', 'placed']

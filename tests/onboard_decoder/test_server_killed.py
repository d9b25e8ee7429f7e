# SPDX-License-Identifier: Apache-2.0
"""The robot's own code, a real client, and a real server that dies in the middle of a motion."""

import time

import numpy as np
from onboard_decoder.agent.task_result import TaskOutcome
from onboard_decoder.planner_client import LinkSettings, PlannerClient
from onboard_decoder.planner_port import Link
from onboard_decoder.robot import Robot
from protos import plan_pb2

from tests.fakes.scripted_planner import plan_of, ScriptedPlanner, step
from tests.onboard_decoder.gantry import DONE, gantry, Lockstep

DONE_PLAN = plan_pb2.ActionPlan(outcome=plan_pb2.PLAN_OUTCOME_DONE, reason='There.')
PLAN = plan_of(
    step('reach', (0.5, 0.1, 0.2)), step('reach', (-0.5, 0.1, 0.2)), step('home'),
)


class RealLink(Lockstep):
    """The lockstep world with a network client in place of the scripted port."""

    def __init__(self, manifest, client):
        super().__init__(manifest, [DONE])
        self.robot = Robot(
            manifest, client, self.decoder, self.clock,
            publish=lambda command: self.arm.command(command.positions),
        )
        self.robot.activate()

    def step(self):
        """One period, a little real time: the network's threads need some."""
        time.sleep(0.0005)
        return super().step()


def test_no_tick_is_missed_the_arm_holds_and_the_task_goes_on(tmp_path):
    """Kill in mid-motion: a command at every tick, within the limits; done after the restart."""
    manifest = gantry(tmp_path)
    settings = LinkSettings(lost_after_s=600.0)
    with ScriptedPlanner([PLAN, DONE_PLAN], image_size=(16, 12)) as planner, PlannerClient(
        planner.address, 'robot-1', manifest, settings
    ) as client:
        world = RealLink(manifest, client)
        world.robot.ask('go there and back')
        world.run(lambda robot: robot.status().step_index == 1 and not robot.is_at_rest)

        planner.kill()
        while client.state().link is not Link.DEGRADED:
            assert world.step() is not None
        for _ in range(200):
            assert world.step() is not None
        held = np.array(world.arm.commands[-50:])
        planner.start()
        result = world.run().result

    commands = np.array(world.arm.commands)
    speeds = np.abs(np.diff(commands, axis=0)) / manifest.control_period_s
    assert np.ptp(held, axis=0).max() < 1e-6
    assert (speeds <= manifest.column('max_velocity') * (1 + 1e-9)).all()
    assert result.outcome is TaskOutcome.DONE
    assert result.attempts == 1
    assert client.session_count == 2

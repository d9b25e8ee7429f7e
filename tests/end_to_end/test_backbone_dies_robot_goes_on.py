# SPDX-License-Identifier: Apache-2.0
"""Promises about a robot whose real backbone is killed in the middle of its work.

Shipped weights on both sides, the simulated arm, real sockets; the robot runs in lockstep with
simulated time, the link in real time.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
import time

from onboard_decoder.agent.task_result import TaskOutcome
from onboard_decoder.clock import ManualClock, MonotonicClock, to_ns, to_s
from onboard_decoder.config import RobotSettings
from onboard_decoder.fallback.watchdog import Fault
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_client import LinkSettings, PlannerClient
from onboard_decoder.planner_port import Link, PlannerPort, Source
from onboard_decoder.robot import Robot
from onboard_decoder.robot_factory import load_decoder, load_planner
import pytest
from sim.mujoco_arm import MujocoArm
from sim.tasks import draw_task, Task
from tendon.backbone_process import start_backbone
from tendon.simulated_delay import SimulatedDelay
from tendon.stack import free_port, Stack

pytestmark = pytest.mark.slow
MANIFEST = load_manifest('tendon_arm')
# The backbone shares two cores with the tests: what is late there says nothing about a link.
SETTINGS = RobotSettings().changed({
    'offload.mode': 'auto', 'offload.dwell_s': 0.3, 'offload.late_s': 30.0,
    'offload.enter_s': 30.0, 'offload.leave_s': 20.0, 'limits.turn_deadline_s': 40.0,
})
PATIENT = LinkSettings(lost_after_s=600.0, silence_s=15.0, dead_after_s=40.0)
PATIENCE_S = 60.0


class World:
    """Robot, arm and backbone."""

    def __init__(self, logs: Path) -> None:
        self.stack, self.port, self.is_up = Stack(logs), free_port(), False
        self.planner: PlannerPort = load_planner(
            MANIFEST, SETTINGS, MonotonicClock(),
            lambda: PlannerClient(
                f'127.0.0.1:{self.port}', 'robot-1', MANIFEST, PATIENT),
        )[0]
        self.arm, self.clock = MujocoArm(), ManualClock()
        self._decoder = load_decoder(MANIFEST)
        self.robot = self._robot()

    def start_backbone(self) -> None:
        """Have one that serves, and a robot that has come back to it."""
        if not self.is_up:
            start_backbone(self.stack, port=self.port)
            self.is_up = True
        self.wait(lambda: self.source() is Source.CLOUD)

    def source(self) -> Source | None:
        """Who would plan now."""
        state = self.planner.state()
        return state.choice.source if state.choice and state.link is Link.READY else None

    def kill_backbone(self) -> None:
        self.stack.kill('backbone')
        self.is_up = False
        self.wait(lambda: self.planner.state().link is not Link.READY)

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait in real time."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline_s, self.planner.state()
            time.sleep(0.01)

    def lay_out(self, seed: int, kind: str) -> Task:
        """Show another scene, with the arm at home."""
        scene, task = draw_task(seed, 'train', 'known', kind)
        self.robot.deactivate()
        self.arm.reset(scene)
        self.robot.activate()
        return task

    def _robot(self) -> Robot:
        robot = Robot(
            MANIFEST, SimulatedDelay(self.planner, self.clock, 0.1), self._decoder, self.clock,
            SETTINGS)
        robot.activate()
        return robot

    def run(self, until: Callable[[Robot], bool], limit_s: float = 120.0) -> None:
        """Go on in simulated time."""
        period_s = MANIFEST.control_period_s
        for number in range(round(limit_s / period_s)):
            self._step(number, period_s)
            if until(self.robot):
                return
        raise AssertionError(self.robot.status().to_json())

    def _step(self, number: int, period_s: float) -> None:
        robot, reading, now_s = self.robot, self.arm.read(), to_s(self.clock.now_ns())
        robot.observe_joints(
            now_s, tuple(reading.positions), list(reading.positions.values()),
            list(reading.velocities.values()))
        if robot.wants_image and number % 5 == 0:
            robot.observe_image(MANIFEST.cameras[0].name, now_s, self.arm.render())
        robot.think()
        command = robot.tick()
        if command is not None:
            positions = map(float, command.positions)
            self.arm.command(dict(zip(MANIFEST.joint_names, positions, strict=True)))
        self.arm.advance(period_s)
        self.clock.advance(to_ns(period_s))

    def choices(self, field: str = 'source') -> list[str]:
        """Who planned the turns of this task, or why."""
        events = self.robot.events
        begun = max(i for i, event in enumerate(events) if event['event'] == 'task')
        return [str(e[field]) for e in events[begun:] if e['event'] == 'choice']

    def close(self) -> None:
        self.planner.close()
        self.arm.close()
        self.stack.__exit__(None, None, None)


@pytest.fixture(scope='module')
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp('logs'))
    yield made
    made.close()


@pytest.fixture
def world(shared: World) -> World:
    shared.start_backbone()
    return shared


def test_it_picks_without_a_backbone_and_hands_back_when_it_returns(world: World) -> None:
    """Killed before the plan is asked for: the small planner picks; then the backbone plans."""
    task = world.lay_out(3, 'pick')
    world.robot.ask(task.instruction)
    world.kill_backbone()
    world.run(lambda robot: robot.result is not None)
    result = world.robot.result
    assert result is not None and result.outcome is TaskOutcome.DONE, result
    assert task.success(world.arm)
    assert world.choices() == ['onboard']
    status = world.robot.status()
    assert status.choice is not None and status.choice.source is Source.ONBOARD
    assert Fault.ON_ITS_OWN.value in status.faults

    world.start_backbone()
    task = world.lay_out(4, 'pick')
    world.robot.ask(task.instruction)
    world.run(lambda robot: robot.result is not None)
    assert task.success(world.arm)
    assert world.choices() == ['cloud']
    assert 'has been good' in world.choices('reason')[0]


def test_a_plan_under_way_is_finished_and_checked_on_board(world: World) -> None:
    """Killed while the arm carries the thing: it is still put down, and seen to be there."""
    task = world.lay_out(3, 'put')
    world.robot.ask(task.instruction)
    world.run(lambda robot: robot.status().step == 'move')
    assert world.choices() == ['cloud']
    world.kill_backbone()
    world.run(lambda robot: robot.result is not None)
    result = world.robot.result
    assert result is not None and result.outcome is TaskOutcome.DONE, result
    assert task.success(world.arm)
    assert world.choices() == ['cloud', 'onboard']


def test_what_is_too_hard_waits_for_the_backbone(world: World) -> None:
    """A stack is never guessed at: the arm stays until the backbone is there again."""
    task = world.lay_out(5, 'stack')
    world.robot.ask(task.instruction)
    world.kill_backbone()
    before = world.arm.read().positions
    with pytest.raises(AssertionError):
        world.run(lambda robot: robot.result is not None, limit_s=5.0)
    after = world.arm.read().positions
    assert max(abs(after[name] - before[name]) for name in before) < 0.01
    assert world.choices() == []
    world.start_backbone()
    world.run(lambda robot: robot.result is not None)
    assert world.choices()[0] == 'cloud'

# SPDX-License-Identifier: Apache-2.0
"""A robot that is not the shipped arm, in a few lines: three sliding axes and a gripper.

Its tool's x, y, z are its first three joints, so a decoder for it is one formula.
"""

from dataclasses import dataclass, replace
import math
from pathlib import Path

import numpy as np
from onboard_decoder.clock import ManualClock, to_ns, to_s
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.plan import ActionPlan, Outcome, PlanStep, Skill, SuccessCondition
from onboard_decoder.planner_port import (
    Grant,
    Link,
    PlannerState,
    Remedy,
    TurnAnswer,
    TurnFailure,
)
from onboard_decoder.robot import Robot

GANTRY = """
name: gantry
control_period_s: 0.02
joints:
  - {name: x, unit: m, lower: -1.0, upper: 1.0, max_velocity: 0.8, max_acceleration: 4.0,
     max_jerk: 60.0, home: 0.3}
  - {name: y, unit: m, lower: -1.0, upper: 1.0, max_velocity: 0.8, max_acceleration: 4.0,
     max_jerk: 60.0, home: 0.0}
  - {name: z, unit: m, lower: 0.0, upper: 1.0, max_velocity: 0.8, max_acceleration: 4.0,
     max_jerk: 60.0, home: 0.3}
  - {name: finger, unit: m, lower: 0.0, upper: 0.04, max_velocity: 0.2, max_acceleration: 2.0,
     max_jerk: 60.0, home: 0.04}
gripper: {joint: finger, open_position: 0.04, closed_position: 0.0}
cameras:
  - {name: front, width_px: 32, height_px: 24, vertical_fov_rad: 0.6,
     camera_in_base_m: [1.0, 0.0, 0.8], camera_to_base_wxyz: [1.0, 0.0, 0.0, 0.0]}
table_height_m: 0.0
workspace: {lower_m: [-0.9, -0.9, 0.005], upper_m: [0.9, 0.9, 0.9]}
kinematics:
  chain:
    - {xyz: [0.0, 0.0, 0.0], rpy: [0.0, 1.5707963267948966, 0.0]}
    - {xyz: [0.0, 0.0, 0.0], rpy: [-1.5707963267948966, -1.5707963267948966, 0.0]}
    - {xyz: [0.0, 0.0, 0.0], rpy: [1.5707963267948966, 0.0, 0.0]}
  tool: {xyz: [0.0, 0.0, 0.0], rpy: [0.0, 0.0, 0.0]}
decoder: none.onnx
"""
IMAGE = np.full((24, 32, 3), 128, np.uint8)


def gantry(folder: Path):
    """Write the manifest and read it."""
    path = folder / 'manifest.yaml'
    path.write_text(GANTRY)
    return load_manifest(path)


@dataclass
class Chunk:
    """What a decoder answers."""

    positions: np.ndarray
    remaining_s: float


class GantryDecoder:
    """Approaches the target exponentially; closes or opens the finger when there."""

    def __init__(self, manifest, horizon=50, tau_s=0.12):
        self._manifest, self._tau_s = manifest, tau_s
        self._times = np.arange(1, horizon + 1) * manifest.control_period_s
        self.calls = 0

    def decode(self, step, joints, velocities, delay_s, latent=(), tail=None):
        """Return the way from the measured joints to the step's target."""
        self.calls += 1
        goal = joints.copy()
        if step.skill is Skill.HOME:
            goal[:] = self._manifest.home
        elif step.target_in_base_m is not None:
            goal[:3] = step.target_in_base_m
        far = float(np.linalg.norm(goal[:3] - joints[:3]))
        late = step.skill in (Skill.GRASP, Skill.PLACE) and far > 0.004
        goal[3] = joints[3] if late else self._manifest.gripper.position(step.gripper_opening)
        fade = np.exp(-self._times / self._tau_s)[:, None]
        left_s = self._tau_s * math.log(max(far / 0.002, 1.0))
        return Chunk(goal + (joints - goal) * fade, left_s)


class MirrorArm:
    """Commands become states; a thing between the fingers keeps them apart."""

    def __init__(self, manifest):
        self.names = manifest.joint_names
        self.positions = manifest.home.copy()
        self.thing_m = 0.0  # width of what is between the fingers
        self.thing_below_m = -1.0  # the thing is there only below this height
        self.thing_at = None  # x, y of the thing; anywhere where None
        self.commands = []

    def command(self, positions):
        """Move there, as far as the thing allows."""
        self.commands.append(positions.copy())
        self.positions = positions.copy()
        if self.has_thing:
            self.positions[3] = max(positions[3], self.thing_m)

    @property
    def has_thing(self):
        """True if there is something between the fingers."""
        if self.thing_m == 0.0:
            return False
        held = self.positions[3] <= self.thing_m + 1e-9
        return held or self.positions[2] < self.thing_below_m


class ScriptedPort:
    """A planner port that answers from a list after a delay on the robot's clock."""

    def __init__(self, clock, answers, delay_s=0.1):
        self._clock, self._answers, self._delay_s = clock, list(answers), delay_s
        self.turns, self.cancelled = [], []
        self.link = Link.READY

    def state(self):
        """Return the link as it was set."""
        grant = Grant('s', 1, False, 'scripted', 16, 12, 0, 10**6, 200)
        return PlannerState(self.link, 'as set by the test', grant)

    def submit(self, turn):
        """Take the next answer; the last one for ever."""
        self.turns.append(turn)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return _Pending(self, turn, answer, self._clock.now_ns())

    def close(self):
        """Nothing to do."""


class _Pending:
    def __init__(self, port, turn, answer, sent_ns):
        self._port, self._turn, self._answer, self._sent_ns = port, turn, answer, sent_ns

    def poll(self):
        due_ns = self._sent_ns + to_ns(self._port._delay_s)
        if self._answer is None or self._port._clock.now_ns() < due_ns:
            return None
        if isinstance(self._answer, ActionPlan):
            return TurnAnswer(
                self._turn.turn_id, self._answer, self._sent_ns, due_ns,
                {'queue': 1_000_000, 'decode': 50_000_000},
            )
        return TurnFailure(self._turn.turn_id, self._answer, 'scripted', Remedy.RETRY)

    def cancel(self):
        self._port.cancelled.append(self._turn.turn_id)


class Lockstep:
    """Observe, think, tick: one period after the other."""

    def __init__(self, manifest, answers, settings=None, delay_s=0.1, sinks=()):
        self.clock = ManualClock(to_ns(100.0))
        self.period_ns = to_ns(manifest.control_period_s)
        self.arm = MirrorArm(manifest)
        self.port = ScriptedPort(self.clock, answers, delay_s)
        self.decoder = GantryDecoder(manifest)
        self.robot = Robot(
            manifest, self.port, self.decoder, self.clock, settings, sinks=sinks,
            publish=lambda command: self.arm.command(command.positions),
        )
        self.has_joints = self.has_images = True
        self.robot.activate()

    def step(self):
        """One period."""
        now_s = to_s(self.clock.now_ns())
        if self.has_joints:
            self.robot.observe_joints(now_s, self.arm.names, self.arm.positions)
        if self.has_images and self.robot.wants_image:
            self.robot.observe_image('front', now_s, IMAGE)
        self.robot.think()
        command = self.robot.tick()
        self.clock.advance(self.period_ns)
        return command

    def run(self, until=lambda robot: robot.result is not None, limit_s=60.0):
        """Go on until something holds; fails the test where it does not."""
        for _ in range(int(limit_s * 1e9 / self.period_ns)):
            self.step()
            if until(self.robot):
                return self.robot
        raise AssertionError(f'not within {limit_s} s: {self.robot.status().to_json()}')


DONE = ActionPlan(Outcome.DONE, reason='It is there.')
REFUSED = ActionPlan(Outcome.REFUSED, reason='There is no red cube.')


def put_plan(point=None):
    """Reach, grasp, lift, move, place, lift, home; every target at a point of the image."""
    hold, free = SuccessCondition.HOLDING, SuccessCondition.RELEASED
    steps = (
        PlanStep(Skill.REACH, (0.5, 0.1, 0.2)),
        PlanStep(Skill.GRASP, (0.5, 0.1, 0.02), gripper_opening=0.0, success=hold),
        PlanStep(Skill.LIFT, (0.5, 0.1, 0.2), gripper_opening=0.0),
        PlanStep(Skill.MOVE, (0.4, -0.2, 0.2), gripper_opening=0.0),
        PlanStep(Skill.PLACE, (0.4, -0.2, 0.1), gripper_opening=1.0, success=free),
        PlanStep(Skill.LIFT, (0.4, -0.2, 0.2)),
    )
    seen = (replace(step, point=point) for step in steps)
    return ActionPlan(Outcome.STEPS, (*seen, PlanStep(Skill.HOME)))


def pick_plan():
    """Reach, grasp, lift, hold."""
    return ActionPlan(Outcome.STEPS, (
        *put_plan().steps[:3], PlanStep(Skill.HOLD, (0.5, 0.1, 0.2), gripper_opening=0.0),
    ))

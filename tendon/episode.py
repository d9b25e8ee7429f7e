# SPDX-License-Identifier: Apache-2.0
"""One task from instruction to verdict: the robot's own code in lockstep with simulated time.

Observe, think, tick, step the physics, let things go wrong; then the next 20 ms. The simulator's
truth is looked at here for the verdict alone; the robot gets joints, images and words, also those
of a person whom it may ask.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from onboard_decoder.agent.task_result import TaskOutcome
from onboard_decoder.clock import ManualClock, to_ns, to_s
from onboard_decoder.config import RobotSettings
from onboard_decoder.decoder_port import DecoderPort
from onboard_decoder.errors import ObservationError
from onboard_decoder.image_codec import Image
from onboard_decoder.manifest import Manifest
from onboard_decoder.plan import ActionPlan, Outcome
from onboard_decoder.planner_port import PlannerPort
from onboard_decoder.robot import Robot
from sim.arm_port import SimulatedArm
from sim.camera import label_point
from sim.mishaps import Mishap, prepare
from sim.mujoco_arm import MujocoArm
from sim.scene import SceneSpec
from sim.tasks import Task
from tendon.company import Company
from tendon.simulated_delay import SimulatedDelay, wait_for_session
from tendon.standstill import Standstill

CAMERA_HZ = 10
IMAGE_PX = 128  # grounding errors are stated in pixels of an image of this size
SETTLE_S = 0.5
TIME_LIMIT_S = 400.0


@dataclass(frozen=True)
class EpisodeResult:
    """What came out of one task.

    Attributes:
      kind: kind of the task; 'absent' if the thing named is not there.
      is_success: verdict of the simulator's truth; of an absent thing, that it was refused and
        nothing moved.
      is_first_refused: whether the first plan was a refusal.
      grounding_px: larger distance of thing and place to where they really are [px of 128]; None
        where the first plan has no steps or the thing is absent.
      outcome: what the robot says.
      reason: the robot's reason, for people.
      turns: questions to the backbone.
      attempts: plans that were executed, or trials.
      duration_s: simulated time [s].
      mishap: kind of what was to go wrong.
      mishap_s: simulated time at which it happened; None if it did not, or was there all along.
      questions: how often a person was asked.
      standstills_ms: how long the arm stood before each motion but the first [ms].
    """

    seed: int
    wording: str
    kind: str
    instruction: str
    is_success: bool
    is_first_refused: bool
    grounding_px: float | None
    outcome: str
    reason: str
    turns: int
    attempts: int
    duration_s: float
    mishap: str = 'none'
    mishap_s: float | None = None
    questions: int = 0
    standstills_ms: tuple[float, ...] = ()


@dataclass(frozen=True)
class Spoiler:
    """Takes something from the robot, to show that the task needs it."""

    see: Callable[[Image], Image] = lambda image: image
    hear: Callable[[str], str] = lambda text: text


class Episode:
    """Runs tasks with one arm and one decoder, a fresh robot and session for each."""

    def __init__(
        self, manifest: Manifest, decoder: DecoderPort, connect: Callable[[], PlannerPort],
        delay_s: float = 0.16, settings: RobotSettings | None = None,
        spoiler: Spoiler | None = None, arm: SimulatedArm | None = None,
    ) -> None:
        """Build the world.

        Args:
          manifest: the robot.
          decoder: steps to joint targets.
          connect: opens a session at the backbone.
          delay_s: simulated time from question to answer [s].
          settings: the robot's behaviour.
          spoiler: spoils what the robot sees or hears.
          arm: simulated arm to be used; None makes one.
        """
        self._manifest, self._decoder, self._connect = manifest, decoder, connect
        self._delay_s, self._settings = delay_s, settings or RobotSettings()
        self._spoiler = spoiler or Spoiler()
        self._arm = arm or MujocoArm()
        self._ticks_per_image = round(1 / (CAMERA_HZ * manifest.control_period_s))

    def run(
        self, seed: int, wording: str, scene: SceneSpec, task: Task,
        mishap: Mishap | None = None, until: Callable[[SimulatedArm], bool] | None = None,
    ) -> EpisodeResult:
        """Run one task and judge it.

        Args:
          seed: for the record.
          wording: the same.
          scene: as drawn; it is prepared for the mishap here.
          task: what to do.
          mishap: what goes wrong; None: nothing does.
          until: asked after each control period; the run ends early once it says True.

        Raises:
          PartNotReady: if the backbone cannot be reached.
        """
        mishap = mishap or Mishap('none', seed, task.a, task.b)
        scene = prepare(scene, mishap)
        self._arm.reset(scene)
        company = Company(self._arm, mishap)
        clock = ManualClock()
        planner = SimulatedDelay(self._connect(), clock, self._delay_s)
        try:
            wait_for_session(planner)
            standstill = Standstill()
            robot = Robot(
                self._manifest, planner, self._decoder, clock, self._settings,
                sinks=(standstill,),
            )
            robot.activate()
            robot.ask(self._spoiler.hear(task.instruction))
            self._carry_out(robot, clock, company, standstill, until or (lambda arm: False))
        finally:
            planner.close()
        result = self._judge(seed, wording, scene, task, robot, planner, to_s(clock.now_ns()))
        return replace(
            result, mishap=mishap.kind, mishap_s=company.mischief.happened_s,
            questions=len(company.person.questions), standstills_ms=tuple(standstill.ms),
        )

    def close(self) -> None:
        """Free the display."""
        self._arm.close()

    def _carry_out(
        self, robot: Robot, clock: ManualClock, company: Company, standstill: Standstill,
        is_over: Callable[[SimulatedArm], bool],
    ) -> None:
        number, left = 0, round(SETTLE_S / self._manifest.control_period_s)
        while left > 0 and to_s(clock.now_ns()) < TIME_LIMIT_S and not is_over(self._arm):
            self._step(robot, clock, number)
            standstill.tick(to_s(clock.now_ns()), robot.is_at_rest)
            company.step(robot)
            number += 1
            left -= robot.result is not None

    def _step(self, robot: Robot, clock: ManualClock, number: int) -> None:
        reading, now_s = self._arm.read(), to_s(clock.now_ns())
        names = tuple(reading.positions)
        try:
            robot.observe_joints(
                now_s, names, list(reading.positions.values()), list(reading.velocities.values())
            )
        except ObservationError:
            pass  # dropped, as the node drops it; the watchdog sees the gap
        if robot.wants_image and number % self._ticks_per_image == 0:
            image = self._spoiler.see(self._arm.render())
            robot.observe_image(self._manifest.cameras[0].name, now_s, image)
        robot.think()
        command = robot.tick()
        if command is not None:
            positions = map(float, command.positions)
            self._arm.command(dict(zip(self._manifest.joint_names, positions, strict=True)))
        self._arm.advance(self._manifest.control_period_s)
        clock.advance(to_ns(self._manifest.control_period_s))

    def _judge(
        self, seed: int, wording: str, scene: SceneSpec, task: Task, robot: Robot,
        planner: SimulatedDelay, duration_s: float,
    ) -> EpisodeResult:
        first = planner.answers[0].plan if planner.answers else None
        result = robot.result
        is_right = task.success(self._arm)
        if task.kind == 'absent':
            is_right = is_right and result is not None and result.outcome is TaskOutcome.REFUSED
        return EpisodeResult(
            seed=seed, wording=wording, kind=task.kind, instruction=task.instruction,
            is_success=is_right,
            is_first_refused=first is not None and first.outcome is Outcome.REFUSED,
            grounding_px=_grounding_px(scene, task, first),
            outcome=result.outcome.value if result else 'unfinished',
            reason=result.reason if result else robot.status().trouble,
            turns=result.turns if result else len(planner.answers),
            attempts=result.attempts if result else robot.status().attempt,
            duration_s=round(duration_s, 2),
        )


def _grounding_px(scene: SceneSpec, task: Task, plan: ActionPlan | None) -> float | None:
    """Return the larger error of the plan's first and last point [px]."""
    points = [step.point for step in plan.steps if step.point is not None] if plan else []
    if task.kind == 'absent' or not points:
        return None
    wanted = [(task.a, points[0])] + ([(task.b, points[-1])] if task.b >= 0 else [])
    errors = []
    for index, point in wanted:
        entity = scene.entities[index]
        truth = label_point(np.array([entity.x, entity.y, entity.z]))
        errors.append(float(np.linalg.norm(truth - np.array(point))) * IMAGE_PX)
    return round(max(errors), 3)

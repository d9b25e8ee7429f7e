# SPDX-License-Identifier: Apache-2.0
"""Perfect plans and perfect motion, so that a test can look at what lies between them.

The planner reads the simulator's truth and grounds it as the backbone would; the decoder is the
motion expert. Neither learns anything and neither is part of the product.
"""

from collections.abc import Sequence
from pathlib import Path

from cloud_backbone.action_plan import Step
from cloud_backbone.embodiment import Camera, Embodiment
from cloud_backbone.grounding import Grounder
from cloud_backbone.plan_grammar import PlanDraft
from cloud_backbone.plan_vocabulary import Thing, Vocabulary
import numpy as np
from onboard_decoder.manifest import Manifest
from onboard_decoder.plan import ActionPlan, Outcome, PlanStep, Skill, SuccessCondition
from onboard_decoder.planner_port import (
    Grant,
    Link,
    PlannerState,
    TurnAnswer,
    TurnFailure,
    TurnRequest,
)
from sim.arm_geometry import ArmGeometry
from sim.arm_limits import ArmLimits
from sim.camera import label_point
from sim.expert import Expert, Motion, Moves
from sim.mujoco_arm import MujocoArm
from sim.scene import SceneSpec
from sim.tasks import Task

ROOT = Path(__file__).resolve().parents[2]
HORIZON = 50


def embodiment_of(manifest: Manifest) -> Embodiment:
    """Tell the backbone's side what the robot's side knows."""
    camera = manifest.cameras[0]
    return Embodiment(
        manifest.name, manifest.joint_names,
        (Camera(camera.name, camera.width_px, camera.height_px, camera.vertical_fov_rad,
                tuple(camera.camera_in_base_m), tuple(camera.camera_to_base_wxyz)),),
        manifest.gripper.joint, tuple(manifest.workspace.lower_m),
        tuple(manifest.workspace.upper_m), manifest.table_height_m, manifest.control_period_s,
    )


class OraclePlanner:
    """A planner port that answers from the simulator's truth, after the task's success 'done'."""

    def __init__(self, manifest: Manifest, arm: MujocoArm, scene: SceneSpec, task: Task) -> None:
        self._grounder = Grounder(embodiment_of(manifest), Vocabulary())
        self._arm, self._scene, self._task = arm, scene, task
        self.turns: list[TurnRequest] = []

    def state(self) -> PlannerState:
        """Return a session that is always there."""
        return PlannerState(
            Link.READY, '', Grant('oracle', 1, False, 'truth', 128, 128, 0, 1 << 20, 500)
        )

    def submit(self, turn: TurnRequest) -> 'Answered':
        """Answer at once."""
        self.turns.append(turn)
        return Answered(TurnAnswer(turn.turn_id, self._plan(), 0, 0))

    def close(self) -> None:
        """Nothing to end."""

    def _plan(self) -> ActionPlan:
        task = self._task
        if task.kind == 'absent':
            return ActionPlan(Outcome.REFUSED, reason='there is none')
        if task.success(self._arm):
            return ActionPlan(Outcome.DONE)
        a, a_point = self._thing(task.a)
        b, b_point = self._thing(task.b) if task.b >= 0 else (None, None)
        plan = self._grounder.ground(PlanDraft('steps', a, b, a_point, b_point, task.kind))
        return ActionPlan(Outcome[plan.outcome.name], tuple(map(robot_step, plan.steps)))

    def _thing(self, index: int) -> tuple[Thing, tuple[float, float]]:
        entity = self._scene.entities[index]
        x, y = label_point(self._arm.world.centre(index))
        return Thing(entity.colour, entity.kind), (float(x), float(y))


class Answered:
    """A turn whose answer is there."""

    def __init__(self, answer: TurnAnswer) -> None:
        self._answer = answer

    def poll(self) -> TurnAnswer | TurnFailure | None:
        """Return it."""
        return self._answer

    def cancel(self) -> None:
        """Too late."""


class ExpertDecoder:
    """A decoder port that plans each chunk by the motion expert."""

    def __init__(self) -> None:
        self._limits = ArmLimits.from_manifest(
            ROOT / 'onboard_decoder/robots/tendon_arm/manifest.yaml'
        )
        geometry = ArmGeometry.from_urdf(ROOT / 'sim/assets/tendon_arm.urdf')
        self._expert = Expert(geometry, self._limits)

    def decode(
        self, step: PlanStep, joints: np.ndarray, velocities: np.ndarray, delay_s: float,
        latent: Sequence[float] = (), tail: np.ndarray | None = None,
    ) -> 'ExpertChunk':
        """Plan from the measured state."""
        target = np.array([*(step.target_in_base_m or (0.3, 0.0, 0.3)), step.tool_yaw_rad])
        motion = self._expert.plan(Moves.single(
            step.skill.value, target, step.gripper_opening, step.speed, joints, velocities,
        ))
        return ExpertChunk(motion, delay_s, self._limits.period_s)


class ExpertChunk:
    """Samples of one motion."""

    def __init__(self, motion: Motion, delay_s: float, period_s: float) -> None:
        times = delay_s + period_s * np.arange(1, HORIZON + 1)
        self.positions = motion.positions(times[None])[0]
        self.remaining_s = float(motion.remaining_s[0])


def robot_step(step: Step) -> PlanStep:
    """Say a step in the robot's words."""
    return PlanStep(
        skill=Skill[step.skill.name], target_in_base_m=step.target_in_base,
        tool_yaw_rad=step.tool_yaw, gripper_opening=step.gripper_opening, speed=step.speed,
        success=SuccessCondition[step.success.name], object_name=step.thing, point=step.point,
    )

# SPDX-License-Identifier: Apache-2.0
"""Motions that the robot makes of its own accord: retreat, put down, go home.

Knows the workspace and the measured joints; no backbone is asked.
"""

import numpy as np
from onboard_decoder.agent.success import SuccessJudge
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest import Manifest, Vector
from onboard_decoder.observation_intake import JointState
from onboard_decoder.plan import PlanStep, Skill, SuccessCondition
from onboard_decoder.task_memory import Tool

_CAREFUL = 0.35  # share of the joints' limits while something is put down
_FINGERS_M = 0.02  # where the tool is when what it holds stands on the table, at least


class Motions:
    """Makes steps from where the arm is."""

    def __init__(
        self, manifest: Manifest, kinematics: ForwardKinematics, judge: SuccessJudge,
        retreat_m: float,
    ) -> None:
        self._manifest, self._kinematics, self._judge = manifest, kinematics, judge
        self._retreat_m = retreat_m

    def of(
        self, tool: Tool, joints: JointState, is_carrying: bool, from_m: Vector | None
    ) -> tuple[PlanStep, ...]:
        """Return the steps of a tool that the robot itself knows best; none for the others.

        Args:
          tool: that was called.
          joints: measured.
          is_carrying: whether the gripper holds a thing.
          from_m: where the tool closed around it [m].
        """
        if tool is Tool.LOOK:
            return (self.home(is_carrying),)
        return self.put_down(joints, from_m) if tool is Tool.RELEASE else ()

    def retreat(self, joints: JointState, is_carrying: bool) -> tuple[PlanStep, PlanStep]:
        """Up and home, out of the camera's view; the gripper stays shut if it holds a thing."""
        opening = float(np.clip(self._judge.opening(joints.positions), 0.0, 1.0))
        keep = 0.0 if is_carrying else opening
        return (
            PlanStep(
                Skill.LIFT, self._above(joints), tool_yaw_rad=self._yaw(joints),
                gripper_opening=keep,
            ),
            self.home(is_carrying),
        )

    def away(self, joints: JointState, is_carrying: bool) -> tuple[PlanStep, ...]:
        """Home; from among the things up first."""
        height_m = self._tool_m(joints)[2] - self._manifest.table_height_m
        is_high = height_m >= self._retreat_m
        return (self.home(is_carrying),) if is_high else self.retreat(joints, is_carrying)

    def home(self, is_carrying: bool) -> PlanStep:
        """Go home; the gripper stays shut if it holds a thing, else it opens."""
        return PlanStep(Skill.HOME, gripper_opening=0.0 if is_carrying else 1.0)

    def put_down(self, joints: JointState, from_m: Vector | None) -> tuple[PlanStep, ...]:
        """Bring what is held back to where it came from, let go, go home.

        Args:
          joints: measured.
          from_m: where the tool closed around it [m]; straight down where None.
        """
        x, y, z = from_m or self._below(joints)
        yaw = self._yaw(joints)
        high = self._within((x, y, max(z + self._retreat_m, self._tool_m(joints)[2])))[2]
        move = PlanStep(Skill.MOVE, (x, y, high), yaw, gripper_opening=0.0, speed=_CAREFUL)
        place = PlanStep(
            Skill.PLACE, (x, y, z), yaw, gripper_opening=1.0, speed=_CAREFUL,
            success=SuccessCondition.RELEASED,
        )
        lift = PlanStep(Skill.LIFT, (x, y, high), yaw, gripper_opening=1.0)
        return (move, place, lift, self.home(is_carrying=False))

    def _above(self, joints: JointState) -> Vector:
        x, y, z = self._tool_m(joints)
        return self._within((x, y, z + self._retreat_m))

    def _below(self, joints: JointState) -> Vector:
        x, y, _ = self._tool_m(joints)
        return self._within((x, y, self._manifest.table_height_m + _FINGERS_M))

    def _tool_m(self, joints: JointState) -> Vector:
        x, y, z = self._kinematics.tool_position(joints.positions).tolist()
        return (x, y, z)

    def _within(self, point_m: Vector) -> Vector:
        box = self._manifest.workspace
        x, y, z = np.clip(point_m, box.lower_m, box.upper_m).tolist()
        return (x, y, z)

    def _yaw(self, joints: JointState) -> float:
        return self._kinematics.tool_yaw(joints.positions)

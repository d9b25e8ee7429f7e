# SPDX-License-Identifier: Apache-2.0
"""When a step has succeeded, judged by the robot's own joints alone.

Knows the gripper and the tool's pose; nothing of images, plans or time.
"""

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.config import SuccessSettings
from onboard_decoder.joint_limiter import Motion
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest import Manifest
from onboard_decoder.observation_intake import JointState
from onboard_decoder.plan import PlanStep, Skill, SuccessCondition

Array = NDArray[np.float64]


class SuccessJudge:
    """Answers questions about measured joints (joints,)."""

    def __init__(
        self, manifest: Manifest, kinematics: ForwardKinematics, settings: SuccessSettings
    ) -> None:
        self._gripper, self._finger = manifest.gripper, manifest.gripper_index
        self._kinematics, self._settings = kinematics, settings
        self._home_m = kinematics.tool_position(manifest.home)
        self._rest = settings.rest_ratio * manifest.column('max_velocity')

    def opening(self, positions: Array) -> float:
        """Return how open the gripper is: 0 closed, 1 open."""
        return self._gripper.opening(float(positions[self._finger]))

    def is_at_rest(self, joints: JointState, motion: Motion) -> bool:
        """True if the joints neither move nor are commanded to.

        What is commanded of fingers does not count: a thing between them may be in the way.
        """
        commanded = np.abs(motion.velocities)
        commanded[self._finger] = 0.0
        speed = np.maximum(np.abs(joints.velocities), commanded)
        return bool((speed <= self._rest).all())

    def is_holding(self, positions: Array) -> bool:
        """True if something keeps the fingers apart; asked while they are commanded closed."""
        margin = self._settings.holding_margin
        return margin < self.opening(positions) < 1 - margin

    def is_closed(self, positions: Array) -> bool:
        """True if there is nothing between the fingers."""
        return self.opening(positions) <= self._settings.holding_margin

    def has_succeeded(self, step: PlanStep, positions: Array) -> bool:
        """True if the step's success condition holds now."""
        if step.success is SuccessCondition.HOLDING:
            return self.is_holding(positions)
        if step.success is SuccessCondition.RELEASED:
            wanted = step.gripper_opening - self._settings.released_margin
            return self.opening(positions) >= wanted
        return self.is_at_target(step, positions)

    def is_at_target(self, step: PlanStep, positions: Array) -> bool:
        """True if the tool is where the step wants it; a step without a target is always there."""
        if step.skill is Skill.HOME:
            target = self._home_m
        elif step.target_in_base_m is None:
            return True
        else:
            target = np.array(step.target_in_base_m)
        distance_m = float(np.linalg.norm(self._kinematics.tool_position(positions) - target))
        return distance_m <= self._settings.at_target_m

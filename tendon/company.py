# SPDX-License-Identifier: Apache-2.0
"""What is around a robot at work: something that goes wrong, and a person who can be asked.

Knows the simulator's truth and the robot's question; nothing of plans.
"""

import math

from onboard_decoder.robot import Robot
from sim.mischief import Mischief
from sim.mishaps import Mishap
from sim.mujoco_arm import MujocoArm
from sim.person import Person

ANSWER_S = 1.0  # until a person has done what was asked


class Company:
    """What is around the robot: something that goes wrong, and a person who can be asked."""

    def __init__(self, arm: MujocoArm, mishap: Mishap) -> None:
        """Begin with the scene that the arm shows."""
        self._arm = arm
        self._answer_s: float | None = None
        self.mischief, self.person = Mischief(arm, mishap), Person(mishap)

    def step(self, robot: Robot) -> None:
        """Do what is due; call it after each control period."""
        self.mischief.step()
        if not robot.question:
            self._answer_s = None
        elif self._answer_s is None:
            self._answer_s = self._arm.time_s + ANSWER_S
        elif self._arm.time_s >= self._answer_s:
            self._answer_s = math.inf  # a person who cannot help says nothing
            answer = self.person.answer(robot.question, self._arm)
            if answer is not None:
                robot.answer(answer)

# SPDX-License-Identifier: Apache-2.0
"""What is around a robot at work: something that goes wrong, and a person who can be asked.

Knows the simulator's truth and the robot's question; nothing of plans.
"""

from onboard_decoder.robot import Robot
from sim.arm_port import SimulatedArm
from sim.mishaps import Mishap
from sim.surroundings import Surroundings


class Company:
    """Lets a robot in lockstep hear what its surroundings say."""

    def __init__(self, arm: SimulatedArm, mishap: Mishap) -> None:
        """Begin with the scene that the arm shows."""
        self._around = Surroundings(arm, mishap)
        self._asked = ''
        self.mischief, self.person = self._around.mischief, self._around.person

    def step(self, robot: Robot) -> None:
        """Do what is due; call it after each control period."""
        self._around.step()
        if robot.question != self._asked:
            self._asked = robot.question
            self._around.ask(self._asked)
        answer = self._around.answer()
        if answer is not None:
            robot.answer(answer)

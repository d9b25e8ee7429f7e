# SPDX-License-Identifier: Apache-2.0
"""A person beside the table who may be asked for help.

Clears away what stands where something else should go, and says yes; says nothing to what there
is nothing to be done about. Knows the scene by the simulator's truth, not what the robot thinks.
"""

from __future__ import annotations

from sim.contacts import touches_arm
from sim.free_spots import draw_spot, pose_of
from sim.mishaps import blocker, Mishap
from sim.mujoco_arm import MujocoArm

YES = 'yes'
ARM_AWAY_M = 0.10


class Person:
    """Answers the questions of one run.

    Attributes:
        questions: what was asked, in order.
    """

    def __init__(self, mishap: Mishap) -> None:
        """Stand by for a run with this mishap."""
        self._mishap, self._rng = mishap, mishap.rng(3)
        self.questions: list[str] = []

    def answer(self, question: str, arm: MujocoArm) -> str | None:
        """Do what can be done and answer; None if nothing can be."""
        self.questions.append(question)
        index = blocker(arm.world.scene, self._mishap)
        if index < 0 or not self._is_in_the_way(index, arm):
            return None
        here = pose_of(arm, index)[:2]
        spot = draw_spot(arm, index, self._rng, here, ARM_AWAY_M)
        if spot is None or touches_arm(arm, index):
            return None
        arm.world.move(index, spot)
        return YES

    def _is_in_the_way(self, index: int, arm: MujocoArm) -> bool:
        place = arm.world.scene.entities[self._mishap.place]
        offset = arm.world.centre(index) - arm.world.centre(self._mishap.place)
        return bool(abs(offset[:2]).max() < place.radius_m)

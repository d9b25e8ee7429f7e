# SPDX-License-Identifier: Apache-2.0
"""A person beside the table who may be asked for help.

Clears away what stands where something else should go and says yes; says so where nothing is in
the way; says nothing where nothing can be done. Knows the scene by the simulator's truth, not what
the robot thinks.
"""

from __future__ import annotations

from sim.arm_port import SimulatedArm
from sim.contacts import touches_arm
from sim.free_spots import draw_spot, pose_of
from sim.mishaps import Mishap

YES = 'yes'
FREE = 'it is free'
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

    def answer(self, question: str, arm: SimulatedArm) -> str | None:
        """Do what can be done and answer; None if nothing can be."""
        self.questions.append(question)
        if self._mishap.place < 0:
            return None
        taken = self._in_the_way(arm)
        if taken is None:
            return FREE
        spot = draw_spot(arm, taken, self._rng, pose_of(arm, taken)[:2], ARM_AWAY_M)
        if spot is None or touches_arm(arm, taken):
            return None
        arm.world.move(taken, spot)
        return YES

    def _in_the_way(self, arm: SimulatedArm) -> int | None:
        """Return what stands in or on the place, if it is not what should go there."""
        place = arm.world.scene.entities[self._mishap.place]
        for index in range(len(arm.world.scene.entities)):
            offset = arm.world.centre(index) - arm.world.centre(self._mishap.place)
            is_there = abs(offset[:2]).max() < place.radius_m
            if is_there and index not in (self._mishap.thing, self._mishap.place):
                return index
        return None

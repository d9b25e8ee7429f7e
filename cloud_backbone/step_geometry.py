# SPDX-License-Identifier: Apache-2.0
"""What the arm does for each skill: heights, speeds and ways, about things on the table.

Knows step geometry, the camera and the workspace; knows no plan and no model. A target that the
arm may not go to is an error, never another target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
import math

from cloud_backbone.action_plan import Skill, Step, Success
from cloud_backbone.embodiment import Embodiment, Vector
from cloud_backbone.plan_grammar import Point
from cloud_backbone.plan_vocabulary import Thing, Vocabulary
from cloud_backbone.projection import point_at_height

HOVER_M = 0.20
PLACE_IN_CONTAINER_M = 0.095
STACK_GAP_M = 0.004
PUSH_HEIGHT_M = 0.025
PUSH_RUN_UP_M = 0.075
"""Distance behind the thing at which a push begins."""
PUSH_STANDOFF_M = 0.115
"""Distance of the tool from the target's centre at the end of a push: the thing touches it."""
LOW_GRASP_M = 0.018
"""For flat things: the finger tips just clear the table."""
SLOW = 0.35
SPEED = {Skill.GRASP: 0.5, Skill.PLACE: 0.5, Skill.PUSH: 0.4, Skill.LIFT: 0.7, Skill.MOVE: 0.8}


class UnreachableError(Exception):
    """A thing or a target is where the arm may not go; the message is for people."""


@dataclass(frozen=True)
class Spot:
    """A thing of a plan, in the image and on the table [m]."""

    thing: Thing
    point: Point
    x: float
    y: float


class StepGeometry:
    """Makes steps for one embodiment."""

    def __init__(self, embodiment: Embodiment, vocabulary: Vocabulary) -> None:
        self._embodiment = embodiment
        self._vocabulary = vocabulary

    def take(self, a: Spot, low: bool = False) -> list[Step]:
        """Return steps that grasp a thing and lift it; ``low``: just above the table."""
        height = LOW_GRASP_M if low else self._vocabulary.kind_of(a.thing).grasp_height_m
        return [
            self._step(Skill.REACH, a, HOVER_M, 1.0),
            self._step(Skill.GRASP, a, height, 0.0, Success.HOLDING),
            self._step(Skill.LIFT, a, HOVER_M, 0.0, Success.HOLDING),
        ]

    def hold(self, a: Spot) -> Step:
        """Return the step that stays above the place of a thing and keeps it."""
        return self._step(Skill.HOLD, a, HOVER_M, 0.0, Success.HOLDING)

    def put_down(self, a: Thing, b: Spot, stack: bool) -> list[Step]:
        """Return steps that bring what is held into a container, or onto a support."""
        height = PLACE_IN_CONTAINER_M
        if stack:
            top = self._vocabulary.kind_of(b.thing).top_height_m
            height = top + self._vocabulary.kind_of(a).grasp_height_m + STACK_GAP_M
        return [
            self._step(Skill.MOVE, b, HOVER_M, 0.0, Success.HOLDING),
            self._step(Skill.PLACE, b, height, 1.0, Success.RELEASED),
            self._step(Skill.LIFT, b, HOVER_M, 1.0),
        ]

    def push(self, a: Spot, b: Spot) -> list[Step]:
        """Return steps that push a thing to a container. Raises UnreachableError."""
        distance = math.hypot(b.x - a.x, b.y - a.y)
        if distance <= PUSH_STANDOFF_M - PUSH_RUN_UP_M:
            raise UnreachableError(
                f'The {a.thing} and the {b.thing} are {distance:.2f} m apart, too near to push.'
            )
        dx, dy = (b.x - a.x) / distance, (b.y - a.y) / distance
        start = Spot(a.thing, a.point, a.x - dx * PUSH_RUN_UP_M, a.y - dy * PUSH_RUN_UP_M)
        end = Spot(b.thing, b.point, b.x - dx * PUSH_STANDOFF_M, b.y - dy * PUSH_STANDOFF_M)
        return [
            self._step(Skill.REACH, start, HOVER_M, 0.0),
            self._step(Skill.REACH, start, PUSH_HEIGHT_M, 0.0),
            self._step(Skill.PUSH, end, PUSH_HEIGHT_M, 0.0),
            self._step(Skill.LIFT, end, HOVER_M, 0.0),
        ]

    def _step(
        self,
        skill: Skill,
        spot: Spot,
        height_m: float,
        opening: float,
        success: Success = Success.AT_TARGET,
    ) -> Step:
        return Step(
            skill=skill,
            target_in_base=(spot.x, spot.y, self._embodiment.table_height + height_m),
            thing=str(spot.thing),
            point=spot.point,
            gripper_opening=opening,
            speed=SPEED.get(skill, 1.0),
            success=success,
        )

    def spot(self, thing: Thing, point: Point) -> Spot:
        """Return where a thing at a point of the image is. Raises UnreachableError."""
        height = self._embodiment.table_height + self._vocabulary.kind_of(thing).label_height_m
        found = point_at_height(self._embodiment.camera, point, height)
        if found is None:
            raise UnreachableError(
                f'The {thing} at {point[0]:.2f}, {point[1]:.2f} in the image is not on the table.'
            )
        return Spot(thing, point, found[0], found[1])

    def check_reach(self, steps: Sequence[Step]) -> None:
        """Refuse steps that leave the workspace. Raises UnreachableError."""
        for step in steps:
            if step.target_in_base is not None and not self._within(step.target_in_base):
                raise UnreachableError(
                    f'The {step.thing} is out of reach: the tool would go to '
                    f'{_metres(step.target_in_base)}, allowed is '
                    f'{_metres(self._embodiment.workspace_lower)} to '
                    f'{_metres(self._embodiment.workspace_upper)}.'
                )

    def _within(self, target: Vector) -> bool:
        lower, upper = self._embodiment.workspace_lower, self._embodiment.workspace_upper
        return all(
            low <= value <= high for low, value, high in zip(lower, target, upper, strict=True)
        )


def slowly(steps: Sequence[Step]) -> list[Step]:
    """Return the steps at a speed at which slippery things stay in the gripper."""
    return [replace(step, speed=SLOW * step.speed) for step in steps]


def _metres(point: Vector) -> str:
    return '({:.2f}, {:.2f}, {:.2f}) m'.format(*point)

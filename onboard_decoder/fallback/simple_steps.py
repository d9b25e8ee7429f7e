# SPDX-License-Identifier: Apache-2.0
"""What the arm does for the small planner: to take, to put down, to go home.

The same heights, speeds and ways as the backbone's steps; the gripper turns as the thing lies.
Knows the camera, the table and the workspace; knows no network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from onboard_decoder.agent.image_change import Point
from onboard_decoder.fallback.heard_request import Named
from onboard_decoder.fallback.table_point import point_at_height
from onboard_decoder.manifest import Manifest, Vector
from onboard_decoder.plan import PlanStep, Skill, SuccessCondition

_HOVER_M = 0.20
_PLACE_IN_CONTAINER_M = 0.095
_SPEED = {Skill.GRASP: 0.5, Skill.PLACE: 0.5, Skill.LIFT: 0.7, Skill.MOVE: 0.8}


class OutOfReach(Exception):
    """A thing is where the arm may not go; the message is for people."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A thing in the image and on the table [m], and how it lies [rad]."""

    name: str
    grasp_height_m: float
    point: Point
    x: float
    y: float
    yaw_rad: float = 0.0


class SimpleSteps:
    """Makes steps for one robot and its first camera."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest

    def spot(self, thing: Named, point: Point, yaw_rad: float = 0.0) -> Spot:
        """Return where a thing at a point of the image is. Raises OutOfReach."""
        height_m = self._manifest.table_height_m + thing.kind.label_height_m
        found = point_at_height(self._manifest.cameras[0], point, height_m)
        if found is None:
            raise OutOfReach(
                f'The {thing} at {point[0]:.2f}, {point[1]:.2f} in the image is not on the table.')
        return Spot(
            str(thing), thing.kind.grasp_height_m, point, found[0], found[1], yaw_rad)

    def take(self, a: Spot) -> tuple[PlanStep, ...]:
        """Return steps that grasp a thing and lift it. Raises OutOfReach."""
        return self._checked(
            self._step(Skill.REACH, a, _HOVER_M, 1.0),
            self._step(Skill.GRASP, a, a.grasp_height_m, 0.0, SuccessCondition.HOLDING),
            self._step(Skill.LIFT, a, _HOVER_M, 0.0, SuccessCondition.HOLDING),
        )

    def hold(self, a: Spot) -> PlanStep:
        """Return the step that stays above the place of a thing and keeps it."""
        return self._step(Skill.HOLD, a, _HOVER_M, 0.0, SuccessCondition.HOLDING)

    def put_down(self, b: Spot) -> tuple[PlanStep, ...]:
        """Return steps that bring what is held into a container, then home. Raises OutOfReach."""
        straight = replace(b, yaw_rad=0.0)
        return self._checked(
            self._step(Skill.MOVE, straight, _HOVER_M, 0.0, SuccessCondition.HOLDING),
            self._step(
                Skill.PLACE, straight, _PLACE_IN_CONTAINER_M, 1.0, SuccessCondition.RELEASED),
            self._step(Skill.LIFT, straight, _HOVER_M, 1.0),
            PlanStep(Skill.HOME),
        )

    def _step(
        self, skill: Skill, spot: Spot, height_m: float, opening: float,
        success: SuccessCondition = SuccessCondition.AT_TARGET,
    ) -> PlanStep:
        target: Vector = (spot.x, spot.y, self._manifest.table_height_m + height_m)
        return PlanStep(
            skill, target, spot.yaw_rad, opening, _SPEED.get(skill, 1.0), success, spot.name,
            spot.point)

    def _checked(self, *steps: PlanStep) -> tuple[PlanStep, ...]:
        """Refuse steps that leave the workspace."""
        box = self._manifest.workspace
        for step in steps:
            target = step.target_in_base_m
            if target is not None and not box.contains(target):
                raise OutOfReach(
                    f'The {step.object_name} is out of reach: the tool would go to '
                    f'{_metres(target)}, allowed is {_metres(box.lower_m)} to '
                    f'{_metres(box.upper_m)}.')
        return steps


def _metres(point: Vector) -> str:
    return '({:.2f}, {:.2f}, {:.2f}) m'.format(*point)

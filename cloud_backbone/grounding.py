# SPDX-License-Identifier: Apache-2.0
"""From what a plan says to where the tool goes: points in the image become steps in base.

Knows step geometry, the camera and the workspace; knows no model. A target that the arm may not
go to makes the plan a refusal, never another target.
"""

from __future__ import annotations

from dataclasses import dataclass
import math

from cloud_backbone.action_plan import Outcome, Plan, Skill, Step, Success
from cloud_backbone.embodiment import Embodiment, Vector
from cloud_backbone.plan_grammar import PlanDraft, Point, thought_of
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
SPEED = {Skill.GRASP: 0.5, Skill.PLACE: 0.5, Skill.PUSH: 0.4, Skill.LIFT: 0.7, Skill.MOVE: 0.8}


class UnreachableError(Exception):
    """A thing or a target is where the arm may not go; the message is for people."""


@dataclass(frozen=True)
class _Spot:
    """A thing of a plan, in the image and on the table [m]."""

    thing: Thing
    point: Point
    x: float
    y: float


class Grounder:
    """Turns drafts into plans for one embodiment."""

    def __init__(self, embodiment: Embodiment, vocabulary: Vocabulary) -> None:
        self._embodiment = embodiment
        self._vocabulary = vocabulary

    def ground(self, draft: PlanDraft) -> Plan:
        """Return the plan that a draft means."""
        if draft.outcome == 'refused':
            return refusal(f'There is no {draft.a}.', thought_of(draft))
        if draft.outcome == 'done':
            return Plan(Outcome.DONE, thought_of(draft), _done_reason(draft))
        try:
            steps = self._steps(draft)
            self._check_reach(steps)
        except UnreachableError as error:
            return refusal(str(error), thought_of(draft))
        return Plan(Outcome.STEPS, thought_of(draft), steps=tuple(steps))

    def _steps(self, draft: PlanDraft) -> list[Step]:
        assert draft.a_point is not None
        a = self._spot(draft.a, draft.a_point)
        if draft.task == 'pick':
            return [*self._take(a), self._step(Skill.HOLD, a, HOVER_M, 0.0, Success.HOLDING)]
        assert draft.b is not None
        assert draft.b_point is not None
        b = self._spot(draft.b, draft.b_point)
        home = Step(Skill.HOME, speed=1.0)
        if draft.task == 'push':
            return [*self._push(a, b), home]
        return [*self._take(a), *self._put_down(a, b, stack=draft.task == 'stack'), home]

    def _take(self, a: _Spot) -> list[Step]:
        height = self._vocabulary.kind_of(a.thing).grasp_height_m
        return [
            self._step(Skill.REACH, a, HOVER_M, 1.0),
            self._step(Skill.GRASP, a, height, 0.0, Success.HOLDING),
            self._step(Skill.LIFT, a, HOVER_M, 0.0, Success.HOLDING),
        ]

    def _put_down(self, a: _Spot, b: _Spot, stack: bool) -> list[Step]:
        height = PLACE_IN_CONTAINER_M
        if stack:
            top = self._vocabulary.kind_of(b.thing).top_height_m
            height = top + self._vocabulary.kind_of(a.thing).grasp_height_m + STACK_GAP_M
        return [
            self._step(Skill.MOVE, b, HOVER_M, 0.0, Success.HOLDING),
            self._step(Skill.PLACE, b, height, 1.0, Success.RELEASED),
            self._step(Skill.LIFT, b, HOVER_M, 1.0),
        ]

    def _push(self, a: _Spot, b: _Spot) -> list[Step]:
        distance = math.hypot(b.x - a.x, b.y - a.y)
        if distance <= PUSH_STANDOFF_M - PUSH_RUN_UP_M:
            raise UnreachableError(
                f'The {a.thing} and the {b.thing} are {distance:.2f} m apart, too near to push.'
            )
        dx, dy = (b.x - a.x) / distance, (b.y - a.y) / distance
        start = _Spot(a.thing, a.point, a.x - dx * PUSH_RUN_UP_M, a.y - dy * PUSH_RUN_UP_M)
        end = _Spot(b.thing, b.point, b.x - dx * PUSH_STANDOFF_M, b.y - dy * PUSH_STANDOFF_M)
        return [
            self._step(Skill.REACH, start, HOVER_M, 0.0),
            self._step(Skill.REACH, start, PUSH_HEIGHT_M, 0.0),
            self._step(Skill.PUSH, end, PUSH_HEIGHT_M, 0.0),
            self._step(Skill.LIFT, end, HOVER_M, 0.0),
        ]

    def _step(
        self,
        skill: Skill,
        spot: _Spot,
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

    def _spot(self, thing: Thing, point: Point) -> _Spot:
        height = self._embodiment.table_height + self._vocabulary.kind_of(thing).label_height_m
        found = point_at_height(self._embodiment.camera, point, height)
        if found is None:
            raise UnreachableError(
                f'The {thing} at {point[0]:.2f}, {point[1]:.2f} in the image is not on the table.'
            )
        return _Spot(thing, point, found[0], found[1])

    def _check_reach(self, steps: list[Step]) -> None:
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


def refusal(reason: str, thought: str = '') -> Plan:
    """Return a plan that refuses, with the reason for people."""
    return Plan(Outcome.REFUSED, thought, reason)


def _done_reason(draft: PlanDraft) -> str:
    where = f' with the {draft.b}' if draft.b is not None else ''
    return f'Nothing to do: the {draft.a} is already where it should be{where}.'


def _metres(point: Vector) -> str:
    return '({:.2f}, {:.2f}, {:.2f}) m'.format(*point)

# SPDX-License-Identifier: Apache-2.0
"""From what a plan says to what the arm does: a draft becomes steps in the base frame.

Knows which steps a task takes; knows no model. A target that the arm may not go to makes the plan
a refusal, never another target.
"""

from __future__ import annotations

import math

from cloud_backbone.action_plan import Outcome, Plan, Skill, Step
from cloud_backbone.embodiment import Embodiment
from cloud_backbone.plan_grammar import PlanDraft, thought_of
from cloud_backbone.plan_vocabulary import Vocabulary
from cloud_backbone.step_geometry import StepGeometry, UnreachableError

TOGETHER_M = 0.14
"""What lies in or touches a container is not farther from its centre than this."""
INSIDE_M = 0.075
"""What lies in a container is not farther from its centre than this."""
STACKED_M = 0.08
"""What stands on something is seen no farther from it than this: it looks farther for being up."""


class Grounder:
    """Turns drafts into plans for one embodiment."""

    def __init__(self, embodiment: Embodiment, vocabulary: Vocabulary) -> None:
        self._geometry, self._vocabulary = StepGeometry(embodiment, vocabulary), vocabulary

    def ground(self, draft: PlanDraft, is_placed: bool = False) -> Plan:
        """Return the plan that a draft means.

        Args:
            draft: what the model wrote.
            is_placed: whether the thing was put where it is, rather than pushed there: then it
                must be seen inside, not merely beside.
        """
        if draft.outcome == 'refused':
            return refusal(f'There is no {draft.a}.', thought_of(draft))
        if draft.outcome == 'done':
            return self._done(draft, is_placed)
        try:
            steps = self._steps(draft)
            self._geometry.check_reach(steps)
        except UnreachableError as error:
            return refusal(str(error), thought_of(draft))
        return Plan(Outcome.STEPS, thought_of(draft), steps=tuple(steps))

    def _done(self, draft: PlanDraft, is_placed: bool) -> Plan:
        """Return that nothing is to do, unless the draft itself sees the two things far apart."""
        if draft.b is not None and draft.a_point is not None and draft.b_point is not None:
            try:
                a, b = (
                    self._geometry.spot(*pair)
                    for pair in ((draft.a, draft.a_point), (draft.b, draft.b_point))
                )
            except UnreachableError as error:
                return refusal(str(error), thought_of(draft))
            distance = math.hypot(a.x - b.x, a.y - b.y)
            beside = INSIDE_M if is_placed else TOGETHER_M
            is_container = self._vocabulary.kind_of(draft.b).container
            if distance > (beside if is_container else STACKED_M):
                return refusal(
                    f'The {draft.a} is {distance:.2f} m from the {draft.b}.', thought_of(draft)
                )
        return Plan(Outcome.DONE, thought_of(draft), _done_reason(draft))

    def _steps(self, draft: PlanDraft) -> list[Step]:
        assert draft.a_point is not None
        geometry = self._geometry
        a = geometry.spot(draft.a, draft.a_point)
        if draft.task == 'pick':
            return [*geometry.take(a), geometry.hold(a)]
        assert draft.b is not None
        assert draft.b_point is not None
        b = geometry.spot(draft.b, draft.b_point)
        home = Step(Skill.HOME, speed=1.0)
        if draft.task == 'push':
            return [*geometry.push(a, b), home]
        down = geometry.put_down(draft.a, b, stack=draft.task == 'stack')
        return [*geometry.take(a), *down, home]


def refusal(reason: str, thought: str = '') -> Plan:
    """Return a plan that refuses, with the reason for people."""
    return Plan(Outcome.REFUSED, thought, reason)


def _done_reason(draft: PlanDraft) -> str:
    where = f' with the {draft.b}' if draft.b is not None else ''
    return f'Nothing to do: the {draft.a} is already where it should be{where}.'

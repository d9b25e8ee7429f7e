# SPDX-License-Identifier: Apache-2.0
"""Claims to be done."""

from onboard_decoder.agent.claim import judged
from onboard_decoder.agent.task_result import TrialEnd
from onboard_decoder.plan import ActionPlan, Outcome, PlanStep, Skill
import pytest

DONE, GONE = ActionPlan(Outcome.DONE), ActionPlan(Outcome.REFUSED)
HOLDS = ActionPlan(Outcome.STEPS, (PlanStep(Skill.HOLD),))
BRINGS = ActionPlan(Outcome.STEPS, (PlanStep(Skill.PLACE), PlanStep(Skill.HOME)))


@pytest.mark.parametrize(('look', 'hand_holds', 'has_place', 'end'), [
    (DONE, False, True, TrialEnd.CONFIRMED),
    (DONE, False, False, TrialEnd.CONFIRMED),
    (GONE, False, False, None),
    (BRINGS, False, True, None),
    (HOLDS, True, False, TrialEnd.HELD),
    (GONE, True, False, TrialEnd.HELD),
    (BRINGS, True, False, None),
    (GONE, True, True, None),
    (DONE, True, True, None),
])
def test_a_claim_needs_the_hand_or_a_second_look(
    look: ActionPlan, hand_holds: bool, has_place: bool, end: TrialEnd | None
) -> None:
    """What is still held is not yet where it should go; what is not held must be seen there."""
    assert judged(look, hand_holds, has_place) is end

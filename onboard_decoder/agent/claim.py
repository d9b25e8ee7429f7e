# SPDX-License-Identifier: Apache-2.0
"""Is a claim to be done true? The robot and a second look decide, never the one who claims."""

from onboard_decoder.agent.task_result import TrialEnd
from onboard_decoder.plan import ActionPlan, Outcome


def judged(second_look: ActionPlan, hand_holds: bool) -> TrialEnd | None:
    """Return how a task is done, None where the claim is denied.

    A thing in the gripper fulfils a pick, and whether it is there the fingers know best. A look
    that would carry it on shows that the goal is another one. Everything else must be seen.

    Args:
      second_look: answer to the bare instruction about a new image.
      hand_holds: what the gripper measures.
    """
    if second_look.outcome is Outcome.DONE:
        return TrialEnd.HELD if hand_holds else TrialEnd.CONFIRMED
    ends_in_hand = second_look.ends_holding or second_look.outcome is Outcome.REFUSED
    return TrialEnd.HELD if hand_holds and ends_in_hand else None

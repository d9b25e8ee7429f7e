# SPDX-License-Identifier: Apache-2.0
"""Is a claim to be done true? The robot and a second look decide, never the one who claims."""

from onboard_decoder.agent.task_result import TrialEnd
from onboard_decoder.plan import ActionPlan, Outcome


def judged(second_look: ActionPlan, hand_holds: bool, has_place: bool) -> TrialEnd | None:
    """Return how a task is done, None where the claim is denied.

    A thing in the gripper fulfils a pick, and whether it is there the fingers know best. A look
    that would carry it on, or a place that was named, shows that the goal is another one: then
    nothing is done while the gripper holds something. Everything else must be seen.

    Args:
      second_look: answer to the bare instruction about a new image.
      hand_holds: what the gripper measures.
      has_place: whether a thought of the task has named where the thing is to go.
    """
    if not hand_holds:
        return TrialEnd.CONFIRMED if second_look.outcome is Outcome.DONE else None
    carries_on = second_look.outcome is Outcome.STEPS and not second_look.ends_holding
    return None if has_place or carries_on else TrialEnd.HELD

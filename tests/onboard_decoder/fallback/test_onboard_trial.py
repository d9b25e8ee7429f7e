# SPDX-License-Identifier: Apache-2.0
"""Promises of the small planner in a trial: single calls, and what it leaves to the backbone."""

import numpy as np
from onboard_decoder.fallback.onboard_planner import TOO_HARD
from onboard_decoder.plan import Outcome, Skill
from onboard_decoder.planner_port import TurnFailure
from onboard_decoder.task_memory import (
    HistoryEntry,
    Purpose,
    StepResult,
    TaskMemory,
    Tool,
    ToolCall,
)
import pytest

from tests.onboard_decoder.fallback.asked_planner import ask

RED_CUBE = ToolCall(Tool.GRASP, 'red cube')


def memory(*entries, holds=False, purpose=Purpose.ACT, lessons=()):
    return TaskMemory(
        1, lessons,
        tuple(HistoryEntry(i + 1, call, result) for i, (call, result) in enumerate(entries)),
        purpose, holds)


def test_in_a_trial_it_makes_the_first_call_of_a_pick(planner, free_things):
    """The call is to grasp, with steps that end when the thing is lifted."""
    thing, picture = free_things[0]
    name = f'{thing.colour} {thing.kind}'
    found = ask(planner, f'pick up the {name}', picture, memory=memory())
    assert found.plan.call == ToolCall(Tool.GRASP, name)
    assert [step.skill for step in found.plan.steps] == [Skill.REACH, Skill.GRASP, Skill.LIFT]


def test_in_a_trial_it_looks_before_it_gives_up(planner, scenes):
    """What is not there is looked for once more, then the trial is stopped."""
    grey = np.full((128, 128, 3), 128, np.uint8)
    found = ask(planner, 'pick up the red cube', grey, memory=memory())
    assert found.plan.call.tool is Tool.LOOK
    looked = memory((ToolCall(Tool.LOOK), StepResult.SEEN))
    found = ask(planner, 'pick up the red cube', grey, memory=looked)
    assert found.plan.call.tool is Tool.STOP and found.plan.outcome is Outcome.REFUSED


@pytest.mark.parametrize('past', [
    memory((RED_CUBE, StepResult.MISSED)),
    memory(lessons=('The red cube slips.',)),
    memory(purpose=Purpose.REFLECT),
])
def test_what_went_wrong_is_left_to_the_backbone(planner, free_things, past):
    """Failures, lessons and reflection are not for the small planner."""
    thing, picture = free_things[0]
    found = ask(planner, f'pick up the {thing.colour} {thing.kind}', picture, memory=past)
    assert isinstance(found, TurnFailure) and found.reason == TOO_HARD

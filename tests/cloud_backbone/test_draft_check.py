# SPDX-License-Identifier: Apache-2.0
"""Promises of what is done when the eyes do not agree with a draft."""

from cloud_backbone.act import Act
from cloud_backbone.agent_words import Fact, Lesson
from cloud_backbone.draft_check import as_seen, contradicts
from cloud_backbone.plan_grammar import PlanDraft
from cloud_backbone.plan_vocabulary import Thing
from cloud_backbone.sighting import Sighting
from cloud_backbone.task_memory import HistoryEntry, StepResult, TaskMemory, Tool, ToolCall
import pytest

CUBE, BALL, BIN = Thing('red', 'cube'), Thing('green', 'ball'), Thing('blue', 'bin')
HERE, THERE = (0.2, 0.3), (0.7, 0.6)
EYES = (
    Sighting(HERE, 0.99, {'cube': 0.99}, {'red': 0.99}),
    Sighting(THERE, 0.99, {'bin': 0.99}, {'blue': 0.99}),
)
LOOKED = TaskMemory(entries=(HistoryEntry(1, ToolCall(Tool.LOOK), StepResult.SEEN),))


@pytest.mark.parametrize('draft', [
    Act(Tool.GRASP, CUBE, BIN, HERE, THERE), Act(Tool.PLACE, CUBE, BIN, None, THERE, True),
    Act(Tool.STOP, BALL), Lesson(Fact.LOW, BALL), PlanDraft('steps', CUBE, BIN, HERE, THERE),
])
def test_what_the_eyes_see_is_left_alone(draft: object) -> None:
    """A draft about things that are there, or held, is not touched."""
    assert as_seen(draft, EYES, TaskMemory()) is draft  # type: ignore[arg-type]


def test_an_act_on_nothing_looks_again_and_then_stops() -> None:
    """Nothing is grasped where the eyes see nothing; looking twice in a row is no plan."""
    blind = Act(Tool.GRASP, BALL, None, HERE)
    assert as_seen(blind, EYES, TaskMemory()) == Act(Tool.LOOK, BALL)
    assert as_seen(blind, EYES, LOOKED) == Act(Tool.STOP, BALL)
    misplaced = Act(Tool.PLACE, CUBE, BIN, None, HERE, holding=True)
    assert as_seen(misplaced, EYES, TaskMemory()) == Act(Tool.LOOK, BIN)


def test_a_plan_about_nothing_is_refused() -> None:
    """A single question has no second look."""
    assert as_seen(PlanDraft('steps', BALL, None, HERE), EYES, None) == PlanDraft('refused', BALL)


@pytest.mark.parametrize(('draft', 'denied'), [
    (Act(Tool.LOOK, CUBE), True), (Act(Tool.STOP, BALL), False),
    (Act(Tool.STOP, CUBE, BIN, HERE, THERE), False), (PlanDraft('refused', CUBE), True),
    (PlanDraft('refused', BALL), False), (Lesson(Fact.LOW, CUBE), False),
])
def test_who_denies_what_is_seen_is_doubted(draft: object, denied: bool) -> None:
    """To say that a thing is not there while the eyes see it clearly is a contradiction."""
    assert contradicts(draft, EYES) is denied  # type: ignore[arg-type]

# SPDX-License-Identifier: Apache-2.0
"""What the history says of the next act."""

from cloud_backbone.act_bounds import bounds_of, tried_thing
from cloud_backbone.plan_vocabulary import Thing, Vocabulary
from cloud_backbone.task_memory import HistoryEntry, StepResult, TaskMemory, Tool, ToolCall

VOCABULARY = Vocabulary()
A, B = Thing('red', 'cube'), Thing('blue', 'bin')
GRASP = HistoryEntry(1, ToolCall(Tool.GRASP, 'red cube', 'blue bin'), StepResult.HELD)
MISS = HistoryEntry(1, ToolCall(Tool.GRASP, 'green ball'), StepResult.MISSED)
PLACE = HistoryEntry(2, ToolCall(Tool.PLACE, 'red cube', 'blue bin'), StepResult.PLACED)
CLAIM = HistoryEntry(3, ToolCall(Tool.DONE, 'red cube', 'blue bin'), StepResult.REFUSED)
LOOK = HistoryEntry(4, ToolCall(Tool.LOOK), StepResult.SEEN)
HELP = HistoryEntry(4, ToolCall(Tool.ASK, question='Clear it?'), StepResult.CLEARED)
STRANGE = HistoryEntry(4, ToolCall(Tool.GRASP, 'pink elephant', 'moon'), StepResult.HELD)


def test_what_was_held_last_is_held_and_goes_where_it_was_meant_to_go() -> None:
    """Misses tell nothing, and foreign names tell nothing."""
    bounds = bounds_of(TaskMemory(entries=(STRANGE, GRASP, MISS), hand_holds=True), VOCABULARY)
    assert (bounds.hand_holds, bounds.held, bounds.place) == (True, A, B)
    for entries in ((MISS,), (GRASP, STRANGE), ()):
        bounds = bounds_of(TaskMemory(entries=entries, hand_holds=True), VOCABULARY)
        assert (bounds.held, bounds.place) == (None, None)


def test_a_denied_claim_is_not_made_again_until_something_was_done() -> None:
    """A look changes nothing; a grasp does."""
    for entries, is_barred in (
        ((GRASP, PLACE), False), ((GRASP, PLACE, CLAIM), True), ((PLACE, CLAIM, LOOK), True),
        ((PLACE, CLAIM, LOOK, MISS), False),
    ):
        barred = bounds_of(TaskMemory(entries=entries), VOCABULARY).barred
        assert (Tool.DONE in barred) == is_barred


def test_nobody_is_asked_twice_for_help_that_was_given() -> None:
    """One question that was answered is enough for a trial."""
    assert Tool.ASK in bounds_of(TaskMemory(entries=(HELP, MISS)), VOCABULARY).barred
    assert Tool.ASK not in bounds_of(TaskMemory(entries=(MISS,)), VOCABULARY).barred


def test_the_history_tells_what_was_tried() -> None:
    """What was grasped for last, whatever came of it; foreign names tell nothing."""
    assert tried_thing([GRASP, LOOK], VOCABULARY) == A
    assert tried_thing([LOOK], VOCABULARY) is None
    assert tried_thing([MISS, STRANGE], VOCABULARY) is None

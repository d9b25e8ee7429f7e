# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
import itertools

from onboard_decoder.agent.effects import effect_of, Measured
from onboard_decoder.agent.task_result import FailureCode
from onboard_decoder.agent.tools import missing, schema, TOOLS
from onboard_decoder.plan import Skill
from onboard_decoder.task_memory import Manner, StepResult, Tool, ToolCall
import pytest

EVERY = [
    Measured(*values) for values in itertools.product(
        [None, *Skill], [False, True], [False, True], [False, True], [False, True], [False, True]
    )
]
MOVING = [tool for tool in Tool if TOOLS[tool].moves]


@pytest.mark.parametrize('tool', MOVING)
def test_every_measure_has_a_result_that_the_tool_can_have(tool):
    """And a code exactly where something was wrong."""
    good = (StepResult.HELD, StepResult.PLACED, StepResult.PUSHED, StepResult.RELEASED,
            StepResult.SEEN)
    for seen in EVERY:
        effect = effect_of(tool, seen)
        assert effect.result in TOOLS[tool].results
        assert (effect.code is None) == (effect.result in good)


def test_only_fingers_that_hold_make_a_grasp_held():
    """A motion that came to its end proves nothing."""
    for seen in EVERY:
        result = effect_of(Tool.GRASP, seen).result
        assert seen.holds or result is not StepResult.HELD


def test_nothing_is_placed_that_was_not_let_go():
    """Nor what was lost on the way down."""
    for tool, seen in itertools.product((Tool.PLACE, Tool.STACK, Tool.RELEASE), EVERY):
        result = effect_of(tool, seen).result
        if result in (StepResult.PLACED, StepResult.RELEASED):
            assert seen.let_go and not seen.was_dropped


def test_the_reason_of_a_motion_that_failed_is_kept():
    """With the code that the caller gives."""
    seen = Measured(Skill.REACH, was_held=False, holds=False)

    effect = effect_of(Tool.GRASP, seen, FailureCode.TIMEOUT, 'not done after 8 s')

    assert (effect.result, effect.code) == (StepResult.FAILED, FailureCode.TIMEOUT)
    assert effect.reason == 'not done after 8 s'


def test_schemas_name_every_tool_and_what_it_needs():
    """What a schema requires is what a call is refused without."""
    full = ToolCall(Tool.GRASP, 'red cube', 'blue bin', Manner.LOW, 'May I?')
    for tool, entry in zip(Tool, schema(), strict=True):
        assert entry['name'] == tool.value
        assert missing(replace(full, tool=tool)) is None
        for name in entry['parameters']['required']:
            assert name in missing(replace(full, tool=tool, **{name: ' '}))
        for name in ('object_name', 'target_name', 'question'):
            assert name in missing(replace(full, tool=tool, **{name: 'x' * 500}))
            assert name in missing(replace(full, tool=tool, **{name: 'a\nb'}))

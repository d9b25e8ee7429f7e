# SPDX-License-Identifier: Apache-2.0
"""What a tool must do after the six steps; runs beside a copy of the packages that has the toy."""

from cloud_backbone import wire_task
from cloud_backbone.act import Act, act_grammar, Bounds, compose_act, parse_act
from cloud_backbone.act_grounding import ActGrounder
from cloud_backbone.agent_words import AGENT_TOKENS, entry_text, SYSTEM
from cloud_backbone.plan_vocabulary import Thing, Vocabulary
from cloud_backbone.task_memory import HistoryEntry, StepResult, Tool, ToolCall
from onboard_decoder import wire_task as onboard_wire
from onboard_decoder.agent.interlocks import Interlocks, Situation
from onboard_decoder.agent.tools import schema, TOOLS
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.plan import ActionPlan, Outcome, PlanStep, Skill
from onboard_decoder.task_memory import Tool as OnboardTool
from onboard_decoder.task_memory import ToolCall as OnboardCall

from tests.fakes.oracle import embodiment_of
from tests.fakes.scripted_backbone import ByteCodec

VOCABULARY = Vocabulary()
TAP = Act(Tool.TAP, Thing('red', 'cube'), None, (0.45, 0.5))


def test_it_may_be_written_with_an_empty_hand() -> None:
    """The grammar takes it, and its text is read back."""
    codec, text = ByteCodec(), compose_act(TAP)
    for hand_holds in (False, True):
        matcher = codec.matcher(act_grammar(VOCABULARY, codec.symbols, Bounds(hand_holds)))
        tokens = codec.encode(text)
        assert (matcher.count_valid(tokens) == len(tokens)) is not hand_holds
    assert parse_act(text, VOCABULARY).tool is Tool.TAP


def test_it_is_a_word_of_the_memory() -> None:
    """The tools of the first segment have it, and an entry names its thing."""
    entry = HistoryEntry(1, ToolCall(Tool.TAP, 'red cube'), StepResult.PUSHED)
    assert '<tap>' in AGENT_TOKENS and '<tap>' in SYSTEM
    assert entry_text(entry, VOCABULARY) == '<did><tap> the red cube<pushed>'


def test_it_goes_over_the_wire() -> None:
    """What the backbone calls is what the robot reads."""
    written = wire_task.write_call(ToolCall(Tool.TAP, 'red cube'))
    assert onboard_wire.from_call(written) == OnboardCall(OnboardTool.TAP, 'red cube')


def test_its_steps_are_let_through_by_an_empty_hand() -> None:
    """The backbone makes steps that the robot has no objection to, unless it holds something."""
    manifest = load_manifest('tendon_arm')
    plan = ActGrounder(embodiment_of(manifest), VOCABULARY).ground(TAP)
    steps = tuple(
        PlanStep(Skill[step.skill.name], step.target_in_base) for step in plan.steps
    )
    call = OnboardCall(OnboardTool.TAP, 'red cube')
    taken = ActionPlan(Outcome.STEPS, steps, call=call)
    interlocks = Interlocks(manifest, 8.0)

    assert interlocks.malformed(taken) is None
    assert interlocks.objection(call, taken, Situation(False, 0.1)) is None
    assert interlocks.objection(call, taken, Situation(True, 0.1)) is not None


def test_it_has_a_schema() -> None:
    """Whoever asks for the tools finds it."""
    assert 'tap' in {entry['name'] for entry in schema()}
    assert TOOLS[OnboardTool.TAP].moves

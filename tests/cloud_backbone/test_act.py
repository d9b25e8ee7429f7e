# SPDX-License-Identifier: Apache-2.0
"""Acts as data, text and grammar."""

from dataclasses import replace

from cloud_backbone.act import (
    Act,
    act_grammar,
    Bounds,
    compose_act,
    lesson_grammar,
    parse_act,
    SPELLED,
    thought_of_act,
)
from cloud_backbone.plan_grammar import value_of
from cloud_backbone.plan_vocabulary import Thing, Vocabulary
from cloud_backbone.task_memory import Manner, Tool
from fakes.scripted_backbone import ByteCodec
import pytest

VOCABULARY, CODEC = Vocabulary(), ByteCodec()
A, B = Thing('red', 'cube'), Thing('blue', 'bin')
HERE, THERE = (value_of(10), value_of(20)), (value_of(30), value_of(40))
EMPTY = [
    Act(Tool.GRASP, A, None, HERE),
    Act(Tool.GRASP, A, B, HERE, THERE, manner=Manner.SLOWLY),
    Act(Tool.PUSH, A, B, HERE, THERE),
    Act(Tool.ASK, A, B, HERE, THERE),
    Act(Tool.DONE, A, B, HERE, THERE),
    Act(Tool.LOOK, A),
    Act(Tool.STOP, B),
]
FULL = [
    Act(Tool.DONE, A, holding=True),
    Act(Tool.RELEASE, A, holding=True),
    Act(Tool.PLACE, A, B, None, THERE, holding=True, manner=Manner.SLOWLY),
    Act(Tool.STACK, A, Thing('green', 'cylinder'), None, THERE, holding=True),
]


@pytest.mark.parametrize('act', EMPTY + FULL)
def test_an_act_is_read_back_from_its_text(act: Act) -> None:
    """Nothing of an act is lost on the way through text."""
    assert parse_act(compose_act(act), VOCABULARY) == act


def test_a_thought_is_for_people() -> None:
    """The thought names what is seen, without the call."""
    assert thought_of_act(FULL[2]) == 'Holding the red cube, the blue bin at <030><040>.'


@pytest.mark.parametrize('text', [
    '', ' The red cube is at <010><020>', ' The red cube is at <010><128>.<grasp>',
    ' There is no red cow.<look>', ' There is no red cube.<fly>',
])
def test_what_is_no_act_is_refused(text: str) -> None:
    """A text outside the language is an error that shows it."""
    with pytest.raises(ValueError, match='.'):
        parse_act(text, VOCABULARY)


@pytest.mark.parametrize(('acts', 'hand_holds'), [(EMPTY, False), (FULL, True)])
def test_the_grammar_takes_acts_that_fit_the_hand_and_no_others(
    acts: list[Act], hand_holds: bool
) -> None:
    """With an empty hand nothing is placed, with a full hand nothing is grasped."""
    grammar = act_grammar(VOCABULARY, CODEC.symbols, Bounds(hand_holds))
    for act in EMPTY + FULL:
        tokens = CODEC.encode(compose_act(act))
        valid = CODEC.matcher(grammar).count_valid(tokens)
        assert (valid == len(tokens)) == (act in acts), compose_act(act)


@pytest.mark.parametrize('act', [
    Act(Tool.PLACE, A, Thing('green', 'cylinder'), None, THERE, holding=True),
    Act(Tool.STACK, A, B, None, THERE, holding=True),
    Act(Tool.STACK, Thing('red', 'ball'), A, None, THERE, holding=True),
    Act(Tool.GRASP, B, None, HERE),
    Act(Tool.PUSH, Thing('red', 'ball'), B, HERE, THERE),
    Act(Tool.DONE, A, None, HERE),
    Act(Tool.GRASP, A, A, HERE, THERE),
    Act(Tool.STACK, A, A, None, THERE, holding=True),
])
def test_the_grammar_refuses_what_makes_no_sense(act: Act) -> None:
    """Kinds of things decide what can be done with them."""
    grammar = act_grammar(VOCABULARY, CODEC.symbols, Bounds(act.holding))
    tokens = CODEC.encode(compose_act(act))
    assert CODEC.matcher(grammar).count_valid(tokens) < len(tokens)


def test_a_full_hand_holds_what_it_is_known_to_hold() -> None:
    """Where it is known what is held, no act names another thing in its place."""
    grammar = act_grammar(VOCABULARY, CODEC.symbols, Bounds(True, held=A))
    for thing in (A, Thing('red', 'ball'), Thing('green', 'cube')):
        for act in (
            Act(Tool.PLACE, thing, B, None, THERE, holding=True),
            Act(Tool.RELEASE, thing, holding=True),
        ):
            tokens = CODEC.encode(compose_act(act))
            assert (CODEC.matcher(grammar).count_valid(tokens) == len(tokens)) == (thing == A)


@pytest.mark.parametrize('act', [
    Act(Tool.ASK, A, B, HERE, THERE), Act(Tool.ASK, A, B, None, THERE, holding=True),
    Act(Tool.DONE, A, B, HERE, THERE), Act(Tool.DONE, A, holding=True),
])
def test_a_barred_tool_is_never_called(act: Act) -> None:
    """No act calls it; others stay as they are."""
    for barred in (frozenset[Tool](), frozenset({act.tool})):
        bounds = Bounds(act.holding, barred=barred)
        grammar = act_grammar(VOCABULARY, CODEC.symbols, bounds)
        tokens = CODEC.encode(compose_act(act))
        assert (CODEC.matcher(grammar).count_valid(tokens) == len(tokens)) == (not barred)
        other = replace(act, tool=Tool.RELEASE if act.holding else Tool.GRASP)
        tokens = CODEC.encode(compose_act(other))
        assert CODEC.matcher(grammar).count_valid(tokens) == len(tokens)


def test_what_is_held_goes_where_it_was_meant_to_go() -> None:
    """Where the place is known, no other is named."""
    grammar = act_grammar(VOCABULARY, CODEC.symbols, Bounds(True, A, B))
    for place in (B, Thing('green', 'bin'), Thing('green', 'cube')):
        tool = Tool.PLACE if place.kind == 'bin' else Tool.STACK
        tokens = CODEC.encode(compose_act(Act(tool, A, place, None, THERE, holding=True)))
        assert (CODEC.matcher(grammar).count_valid(tokens) == len(tokens)) == (place == B)


def test_without_refusals_no_act_says_that_nothing_is_there() -> None:
    """Where the eyes see the thing, the model cannot deny it."""
    grammar = act_grammar(VOCABULARY, CODEC.symbols, Bounds(refusable=False))
    assert CODEC.matcher(grammar).count_valid(CODEC.encode(' There')) < len(' There')


def test_a_tokenizer_without_words_of_its_own_spells_them() -> None:
    """The same grammar serves checkpoints of others."""
    for grammar in (
        act_grammar(VOCABULARY, SPELLED, Bounds(False)),
        act_grammar(VOCABULARY, SPELLED, Bounds(True)),
        lesson_grammar(VOCABULARY, SPELLED),
    ):
        assert '<[' not in grammar
        CODEC.matcher(grammar)

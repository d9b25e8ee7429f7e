# SPDX-License-Identifier: Apache-2.0
"""Writing acts and lessons token by token."""

from cloud_backbone.act import Act, Bounds, compose_act
from cloud_backbone.act_writer import ActWriter
from cloud_backbone.agent_words import Fact, Lesson, lesson_text
from cloud_backbone.constrained_decoding import PlanLanguage
from cloud_backbone.plan_grammar import value_of
from cloud_backbone.plan_vocabulary import Thing, Vocabulary
from cloud_backbone.task_memory import Manner, Tool
from fakes.scripted_backbone import ByteCodec, END, VOCABULARY
from hypothesis import given, settings
from hypothesis import strategies as st
import pytest
import torch

LANGUAGE = PlanLanguage(Vocabulary(), ByteCodec())
A, B = Thing('red', 'cube'), Thing('blue', 'bin')
HERE, THERE = (value_of(10), value_of(20)), (value_of(30), value_of(40))
ACTS = [
    Act(Tool.GRASP, A, B, HERE, THERE, manner=Manner.SLOWLY),
    Act(Tool.GRASP, A, None, HERE),
    Act(Tool.STOP, A),
    Act(Tool.PLACE, A, B, None, THERE, holding=True),
]


def write(writer: ActWriter, text: str, hint: str) -> tuple[list[int], int]:
    """Let a model write that is sure of a text; return all tokens and how often it was asked."""
    wanted, written, asked = [*ByteCodec().encode(text), END], list(writer.opening), 0
    while writer.draft is None:
        guess = writer.guess(hint)
        logits = torch.zeros(1 + len(guess), VOCABULARY)
        for place, row in enumerate(logits):
            if len(written) + place < len(wanted):
                row[wanted[len(written) + place]] = 20.0
        kept, chunk = writer.advance(logits, guess)
        written, asked = [*written, *guess[:kept], *chunk], asked + 1
    return written, asked


@pytest.mark.parametrize('act', ACTS)
def test_what_the_model_wants_is_what_is_written(act: Act) -> None:
    """A sure model writes its act, whatever is guessed beside it."""
    text = compose_act(act)
    for hint in ('put the red cube in the blue bin', 'a green ball', ''):
        writer = ActWriter(LANGUAGE, Bounds(act.holding))
        tokens, _ = write(writer, text, hint)
        assert (writer.draft, tokens) == (act, ByteCodec().encode(text))
        assert writer.confidence > 0.99


def test_a_right_guess_saves_questions() -> None:
    """Names that the instruction has are computed along."""
    text = compose_act(ACTS[0])
    _, guessed = write(ActWriter(LANGUAGE, Bounds()), text, 'put the red cube in the blue bin')
    _, blind = write(ActWriter(LANGUAGE, Bounds()), text, '')
    assert guessed < blind


@pytest.mark.parametrize('fact', Fact)
def test_a_trial_that_is_over_gives_a_lesson(fact: Fact) -> None:
    """Nothing but a lesson can be written then."""
    lesson = Lesson(fact, A)
    writer = ActWriter(LANGUAGE, None)
    write(writer, lesson_text(lesson), '')
    assert writer.draft == lesson


def test_a_lesson_is_about_what_was_tried() -> None:
    """Where that is known, no model can write of anything else."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        writer = ActWriter(LANGUAGE, None, about=A)
        while writer.draft is None:
            writer.choose(20 * torch.randn(VOCABULARY, generator=generator))
        assert isinstance(writer.draft, Lesson)
        assert writer.draft.thing == A


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), hand_holds=st.booleans(), is_over=st.booleans())
def test_any_logits_give_a_draft_of_the_right_kind(
    seed: int, hand_holds: bool, is_over: bool
) -> None:
    """However wild the model, what comes out parses, within a bounded number of tokens."""
    generator = torch.Generator().manual_seed(seed)
    writer = ActWriter(LANGUAGE, None if is_over else Bounds(hand_holds))
    for _ in range(100):
        if writer.draft is not None:
            break
        writer.choose(20 * torch.randn(VOCABULARY, generator=generator))
    assert isinstance(writer.draft, Lesson if is_over else Act)
    if isinstance(writer.draft, Act):
        assert writer.draft.holding == hand_holds

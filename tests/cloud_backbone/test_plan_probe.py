# SPDX-License-Identifier: Apache-2.0
"""Promises of the likely answer: it is a plan, about what the instruction names."""

from cloud_backbone.constrained_decoding import PlanLanguage
from cloud_backbone.plan_grammar import parse
from cloud_backbone.plan_probe import likely_answer
from cloud_backbone.plan_vocabulary import Vocabulary
import pytest

from tests.fakes.scripted_backbone import ByteCodec, LOCATION


@pytest.mark.parametrize(
    ('instruction', 'a', 'b'),
    [
        ('put the red cube in the blue bin', 'red cube', 'blue bin'),
        ('push the green cube to the blue bin', 'green cube', 'blue bin'),
        ('stack the yellow cube on the purple cylinder', 'yellow cube', 'purple cylinder'),
    ],
)
def test_likely_answer_names_what_is_named(instruction: str, a: str, b: str) -> None:
    """Its words are those that the model would write if the instruction is plain."""
    vocabulary = Vocabulary()
    tokens = likely_answer(PlanLanguage(vocabulary, ByteCodec()), instruction)
    text = ''.join(
        chr(token) if token < LOCATION else f'<{token - LOCATION:03d}>' for token in tokens
    )
    draft = parse(text, vocabulary)
    assert (str(draft.a), str(draft.b)) == (a, b)


def test_any_words_give_an_answer() -> None:
    """Also where nothing is named that the vocabulary knows."""
    language = PlanLanguage(Vocabulary(), ByteCodec())
    assert likely_answer(language, 'do something nice')
    assert likely_answer(language, '')

# SPDX-License-Identifier: Apache-2.0
"""Answers of people."""

from onboard_decoder.agent.person import Person
from onboard_decoder.task_memory import StepResult
import pytest


def answered(text: str) -> StepResult:
    """Return what comes of a question that is answered like this."""
    person = Person(10.0)
    person.ask('Can you clear it?', 0)
    assert person.answer(text)
    effect = person.poll(1)
    assert effect is not None
    return effect.result


@pytest.mark.parametrize('text', [
    'no', 'No, sorry.', 'I cannot', "sorry, I can't", 'nope', 'Later!',
    'I can\u2019t', "I won't", "don't touch it", 'Stop!', 'Never.',
])
def test_whoever_declines_has_done_nothing(text: str) -> None:
    """A no counts among the first words, however polite it is."""
    assert answered(text) is StepResult.UNANSWERED


@pytest.mark.parametrize('text', ['yes', 'done', 'ok', 'It is free now, there was not much to do'])
def test_everybody_else_has_done_what_was_asked(text: str) -> None:
    """The next image shows whether it is true."""
    assert answered(text) is StepResult.CLEARED


@pytest.mark.parametrize('text', ['', ' \n', '...', '?'])
def test_what_has_no_word_is_no_answer(text: str) -> None:
    """Nobody is taken by his word who said none; the question stays."""
    person = Person(10.0)
    person.ask('Can you clear it?', 0)
    assert not person.answer(text)
    assert person.poll(1) is None
    assert person.answer('yes')


def test_a_long_answer_is_repeated_in_part() -> None:
    """A status line stays one."""
    person = Person(10.0)
    person.ask('Can you clear it?', 0)
    assert person.answer('yes ' * 1000)
    effect = person.poll(1)
    assert effect is not None
    assert len(effect.reason) < 250

# SPDX-License-Identifier: Apache-2.0
"""Promises of the spelling correction."""

from cloud_backbone.model.configuration import COLOURS
from cloud_backbone.model.prompt import clean_instruction
from cloud_backbone.model.spelling import Spelling
import pytest


@pytest.mark.parametrize(
    ('typed', 'meant'),
    [
        ('whtie', 'white'),
        ('oraange', 'orange'),
        ('rgeen', 'green'),
        ('yello', 'yellow'),
        ('ppurple', 'purple'),
        ('bleu', 'blue'),
        ('balck', 'black'),
        ('briick', 'brick'),
        ('cyliinder', 'cylinder'),
        ('spehre', 'sphere'),
        ('contaner', 'container'),
    ],
)
def test_one_slip_in_a_name_is_undone(typed: str, meant: str) -> None:
    """A dropped, doubled or swapped letter does not change what is meant."""
    assert clean_instruction(f'Put the {typed} thing away').split()[2] == meant


@pytest.mark.parametrize(
    'text',
    [
        'put it back while the range is clear',
        'i read all about it',
        'a great blur',
        'red',
    ],
)
def test_other_words_stay(text: str) -> None:
    """Words that merely resemble a colour are left alone."""
    assert Spelling(COLOURS).correct(text) == text


def test_every_colour_stays_itself() -> None:
    """A right word is never corrected into another one."""
    for colour in COLOURS:
        assert Spelling(COLOURS).correct(colour) == colour

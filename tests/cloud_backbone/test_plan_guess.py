# SPDX-License-Identifier: Apache-2.0
"""Promises of guessing: likely texts from plain words, never more than a guess."""

from cloud_backbone.plan_grammar import SKELETONS
from cloud_backbone.plan_guess import best_guess
import pytest

THINGS = [f'{colour} {kind}' for kind in ('cube', 'ball', 'bin') for colour in ('red', 'blue')]
OPENINGS = [f' The {thing} is at ' for thing in THINGS]
TARGETS = [f', the {thing} at ' for thing in THINGS]


@pytest.mark.parametrize(
    ('texts', 'hint', 'said', 'guess'),
    [
        (OPENINGS, 'Put the RED ball, please, into the blue bin!', '', ' The red ball is at '),
        (OPENINGS, 'put the blue block away', '', ' The blue cube is at '),
        (TARGETS, 'red ball, blue bin', ' The red ball is at ', ', the blue bin at '),
        (TARGETS, 'red cube on blue cube', ' The red cube is at ', ', the blue cube at '),
        (list(SKELETONS.values()), 'push it over there', '', SKELETONS['push']),
        (['a', 'b'], '', '', 'a'),
    ],
)
def test_guess_follows_the_words(texts: list[str], hint: str, said: str, guess: str) -> None:
    """Pairs of words count most, then words not said yet, then what comes first."""
    assert best_guess(texts, hint, said) == guess

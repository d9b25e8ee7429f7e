# SPDX-License-Identifier: Apache-2.0
"""How much the bench measures: the full size, and one of seconds for tests."""

from dataclasses import dataclass

CODECS = ('full', 'int8', 'oaken', 'kivi4', 'squat4', 'kivi2', 'squat2')
"""Policies that drop nothing."""
MIDDLE = ('sinks', 'snapkv', 'pyramid', 'h2o', 'cake', 'wide', 'replay', 'veda', 'veda+oaken')
"""Policies that are compared at the middle share only."""
POOLED = ('replay+squat4', 'wide+squat4', 'cake+squat4', 'SnapKV', 'ExpectedAttention')
"""Methods whose likelihood is also taken over several passages, at the middle share."""
ALL = ('replay+squat4', 'wide+squat4', 'cake+squat4', 'snapkv+kivi4', 'cake+tiers')
"""Policies that are compared at every share."""


@dataclass(frozen=True)
class Size:
    """Lengths in tokens, counts, and what is compared."""

    context: int
    """Of the text whose continuation is predicted."""
    following: int
    """Of the continuation."""
    recall: int
    """Of the text with facts."""
    needles: int
    """Facts in a text."""
    inside: int
    """Facts that are also asked for within the context."""
    step: int
    """Tokens that are fed at once while decoding."""
    lengths: tuple[int, ...]
    """Contexts at which time is measured."""
    slots: int
    """That stay per layer where decoding is timed at fixed memory."""
    rounds: int
    """Repetitions of each timing; the median counts."""
    turns: int
    """Of the conversation that is watched for drift."""
    turn: int
    """Tokens of a turn; the first has four times as many."""
    codecs: tuple[str, ...] = CODECS
    middle: tuple[str, ...] = MIDDLE
    all_shares: tuple[str, ...] = ALL
    pooled: tuple[str, ...] = POOLED
    passages: int = 6
    """That ``pooled`` methods read; none is the passage that all methods read."""
    texts: int = 4
    """With biased keys."""
    shares: tuple[float, ...] = (1 / 4, 1 / 8, 1 / 16)
    """Of the bytes of all keys and values at 16 bits."""


FULL = Size(
    context=4096, following=256, recall=1280, needles=8, inside=4, step=16,
    lengths=(1024, 4096, 8192, 16384), slots=512, rounds=5, turns=10, turn=128,
)
QUICK = Size(
    context=320, following=16, recall=320, needles=2, inside=1, step=4,
    lengths=(512, 1024), slots=64, rounds=2, turns=3, turn=64, codecs=('full', 'kivi4'),
    middle=('snapkv',), all_shares=('cake+squat4',), pooled=('cake+squat4',),
    passages=2, texts=1, shares=(1 / 2, 1 / 4),
)

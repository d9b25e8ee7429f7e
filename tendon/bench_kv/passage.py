# SPDX-License-Identifier: Apache-2.0
"""Long English text with facts planted in it, the same on every machine of one Python version.

The text is the language reference that Python carries for its ``help()``; nothing is downloaded.
Knows no model: it gets a function that turns text into tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass
import hashlib
from pydoc_data import topics
import random

THINGS = (
    'password of the library', 'name of the black horse', 'favourite colour of Alice',
    'street where Robert lives', 'first word of the letter', 'ship in the harbour',
    'prize that Maria won', 'gift for the old teacher', 'flower on the table',
    'code of the blue door',
)
"""What facts are about; all different, so that the full cache of a small model finds most."""
WORDS = (
    'maple', 'river', 'copper', 'lantern', 'velvet', 'orange', 'winter', 'marble', 'garden',
    'silver',
)
FACT = '\nRemember: the {thing} is {word}.\n'
QUESTION = '\nThe {thing} is'
TAIL = 96
"""Tokens of plain text after the last fact: no window reaches back to it."""

EVEN = 4
"""Context and question together, but for the last token, have a multiple of so many tokens: some
quantizers take nothing else."""

Encode = Callable[[str], list[int]]


@dataclass(frozen=True)
class Needle:
    """A planted fact and how it is asked for."""

    depth: float
    """Where it stands: 0 is the beginning of the passage, 1 the end."""
    question: list[int]
    answer: list[int]


@dataclass(frozen=True)
class Passage:
    """A text to be held in the cache, what follows it, and what can be asked about it."""

    context: list[int]
    continuation: list[int]
    needles: tuple[Needle, ...]


def reference_text() -> str:
    """Return all of the text, in single spaces."""
    return ' '.join(' '.join(topics.topics[name].split()) for name in sorted(topics.topics))


def fingerprint() -> str:
    """Return what tells one text from another."""
    return hashlib.sha256(reference_text().encode()).hexdigest()[:12]


def draw_passage(
    encode: Encode, tokens: int, following: int, needles: int, seed: int
) -> Passage:
    """Draw a passage of exactly ``tokens`` tokens with facts at even depths.

    Args:
        encode: turns text into tokens.
        tokens: length of the context.
        following: length of the continuation.
        needles: how many facts are planted, at most ten.
        seed: chooses the text, the facts and the words.
    """
    draw = random.Random(seed)
    plain = _plain(encode, tokens + following + EVEN, draw)
    things, words = draw.sample(THINGS, needles), draw.sample(WORDS, needles)
    pairs = list(zip(things, words, strict=True))
    facts = [encode(FACT.format(thing=thing, word=word)) for thing, word in pairs]
    room = tokens - sum(map(len, facts))
    context: list[int] = []
    planted: list[Needle] = []
    start = 0
    for number, ((thing, word), fact) in enumerate(zip(pairs, facts, strict=True)):
        end = (room - min(TAIL, room // 4)) * (number + 1) // needles
        context += plain[start:end]
        question = encode(QUESTION.format(thing=thing))
        odd = (1 - tokens - len(question)) % EVEN
        planted.append(Needle(
            round(len(context) / tokens, 3), [*plain[-EVEN : len(plain) - EVEN + odd], *question],
            encode(f' {word}'),
        ))
        context += fact
        start = end
    context += plain[start:room]
    return Passage(context, plain[room : room + following], tuple(planted))


def _plain(encode: Encode, tokens: int, draw: random.Random) -> list[int]:
    text = reference_text()
    letters = 8 * tokens  # more than enough: a token has about four letters
    begin = draw.randrange(max(len(text) - letters, 1))
    found = encode(text[begin : begin + letters])
    assert len(found) >= tokens, 'the text is too short for such a passage'
    return found[:tokens]

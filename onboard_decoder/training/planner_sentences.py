# SPDX-License-Identifier: Apache-2.0
"""Batches of sentences for training the onboard planner's ears.

Besides the sentences of the scenes: requests that need no thing ('go home', 'stay'), and ones that
the planner must not believe to understand, made by spoiling good ones. Knows words, no pictures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from onboard_decoder.fallback.onboard_model import TASKS
from onboard_decoder.fallback.sentence_words import split_words, word_numbers
from onboard_decoder.training.planner_data import Sentence
from onboard_decoder.training.planner_ears import MOST_WORDS
from onboard_decoder.training.planner_eyes import COLOURS, KINDS
import torch
from torch import Tensor

HOME = (
    'go home', 'return home', 'move home', 'go back', 'move back', 'retreat', 'back off',
    'go to your home position', 'return to the home position', 'move out of the way',
    'get out of the way', 'move away', 'come back', 'go to your rest position',
)
STAY = (
    'stop', 'hold still', 'stand still', 'stay', 'stay there', 'stay where you are', 'wait',
    'do nothing', 'freeze', 'stay in place', 'hold your position', 'finish', 'finish now',
    'that is all', 'you are done', 'stop moving', 'that is enough',
)
_BEFORE = ('', '', '', 'please ', 'now ', 'robot ', 'hey robot ', 'could you ')
_AFTER = ('', '', '', ' please', ' now', ' thanks')
_RELATIONS = ('in', 'on', 'inside', 'next to', 'under', 'on top of', 'away from', 'and', 'with')
_LINKS = ('and', 'and then', 'then', 'now', 'next', 'after that', 'or', '')
_CONTAINERS, _THINGS = ('bin', 'box', 'container', 'tray'), ('cube', 'ball', 'cylinder', 'block')
_RARE = 0.00375
"""A word in a smaller share of the sentences is a typing error, or does not matter."""
_SPOILT, _PLAIN = 0.35, 0.07  # shares of a batch


class SentenceBatch(NamedTuple):
    """Word numbers (batch, 24), and the numbers of what is right (batch,), -1 where none is."""

    words: Tensor
    task: Tensor
    a_colour: Tensor
    a_kind: Tensor
    b_colour: Tensor
    b_kind: Tensor


def vocabulary_of(sentences: Sequence[Sentence]) -> tuple[str, ...]:
    """Return the words to know, sorted: frequent ones of the sentences, and those of here."""
    counts = Counter(word for s in sentences for word in set(split_words(s.text)))
    least = max(3, round(_RARE * len(sentences)))
    words = {word for word, count in counts.items() if count >= least}
    own = (*HOME, *STAY, *_BEFORE, *_AFTER, *_LINKS, *_RELATIONS)
    return tuple(sorted(words | {word for text in own for word in split_words(text)}))


class SentenceSource:
    """Draws batches."""

    def __init__(self, sentences: Sequence[Sentence], vocabulary: Sequence[str]) -> None:
        """Keep the sentences whose words are all known."""
        self._numbers = {word: i + 1 for i, word in enumerate(vocabulary)}
        self._words = list(vocabulary)
        self._good = [
            s for s in sentences
            if not s.has_unseen_wording and all(w in self._numbers for w in split_words(s.text))
        ]

    def draw(self, count: int, rng: Generator) -> SentenceBatch:
        """Draw a batch."""
        rows = [self._one(rng) for _ in range(count)]
        numbers = [word_numbers(words, self._numbers, MOST_WORDS) for words, _ in rows]
        labels = torch.tensor([label for _, label in rows])
        return SentenceBatch(torch.from_numpy(np.stack(numbers)), *labels.unbind(-1))

    def _one(self, rng: Generator) -> tuple[list[str], tuple[int, ...]]:
        chance = rng.random()
        if chance < _PLAIN:
            is_home = rng.random() < 0.5
            said = str(rng.choice(HOME if is_home else STAY))
            text = f'{rng.choice(_BEFORE)}{said}{rng.choice(_AFTER)}'
            return split_words(text), _label('home' if is_home else 'stay')
        sentence = self._any(rng)
        if chance < _PLAIN + _SPOILT:
            words = self._spoilt(sentence, rng)[:MOST_WORDS]
            if words != split_words(sentence.text):
                return words, _label('other')
        return split_words(sentence.text)[:MOST_WORDS], label_of(sentence)

    def _any(self, rng: Generator) -> Sentence:
        return self._good[int(rng.integers(len(self._good)))]

    def _spoilt(self, sentence: Sentence, rng: Generator) -> list[str]:
        """Return words that ask for something else, for two things, or for nothing."""
        words = split_words(sentence.text)
        nouns = [i for i, word in enumerate(words) if word in (*COLOURS, *_NOUNS)]
        way = int(rng.integers(8))
        if way == 0:  # two requests
            other = split_words(self._any(rng).text)
            plain = split_words(str(rng.choice((*HOME, *STAY))))
            second = other if rng.random() < 0.8 else plain
            joint = split_words(str(rng.choice(_LINKS)))
            return words + joint + second if rng.random() < 0.8 else second + joint + words
        if way == 1:  # a thing described by another, or a second thing
            another = self._any(rng)
            name = split_words(f'{rng.choice(_RELATIONS)} the {" ".join(another.b or another.a)}')
            return words + name
        if way == 2 and nouns:  # a name is incomplete
            gone = int(rng.choice(nouns))
            return words[:gone] + words[gone + 1:]
        if way == 3:  # what cannot be: containers are not handled, balls are no container
            return self._impossible(sentence, words)
        if way == 4:  # only some of the words
            first, last = sorted(rng.integers(0, len(words) + 1, 2).tolist())
            return words[first:last] if rng.random() < 0.5 else words[:first] + words[last:]
        if way == 5:
            return [str(word) for word in rng.permutation(words)]
        if way == 6:  # some other words
            return [w if rng.random() < 0.7 else str(rng.choice(self._words)) for w in words]
        count = int(rng.integers(1, 12))
        return [str(word) for word in rng.choice(self._words, count)]

    def _impossible(self, sentence: Sentence, words: list[str]) -> list[str]:
        """Return the same with a container to be handled, or a thing as container."""
        if sentence.b is None:
            return ['bin' if word in _NOUNS else word for word in words]
        if sentence.task in ('put', 'push'):
            return ['ball' if word in _CONTAINERS else word for word in words]
        return ['tray' if word in _NOUNS else word for word in words]


_NOUNS = (*_CONTAINERS, *_THINGS, 'brick', 'sphere', 'can', 'tin')


def label_of(sentence: Sentence) -> tuple[int, ...]:
    """Return the numbers of what a sentence asks for."""
    return _label(sentence.task, sentence.a, sentence.b)


def _label(task: str, *names: tuple[str, str] | None) -> tuple[int, ...]:
    numbers = [TASKS.index(task)]
    for name in (*names, None, None)[:2]:
        numbers += [-1, -1] if name is None else [COLOURS.index(name[0]), KINDS.index(name[1])]
    return tuple(numbers)

# SPDX-License-Identifier: Apache-2.0
"""Which of several texts will the model write? A guess from words that it was given.

A guess only saves time: what is guessed is computed together, and the model's own choice decides
how much of it is kept. Knows words; knows no model and no grammar.
"""

from __future__ import annotations

from collections.abc import Sequence
import re

_WORD = re.compile(r'\w+')
PAIR_WEIGHT = 2


def best_guess(texts: Sequence[str], hint: str, said: str) -> str:
    """Return the text that shares most with the hint; the earlier in the hint, the better.

    Args:
        texts: at least one.
        hint: words that the model has seen or written before.
        said: what it has written of this plan; single words of it count no more.
    """
    words = _words(hint)
    pairs = _first_places(list(zip(words, words[1:], strict=False)))
    fresh = set(_words(said))
    singles = _first_places([word if word not in fresh else '' for word in words])

    def score(text: str) -> tuple[int, int]:
        mine = _words(text)
        found = [pairs[pair] for pair in zip(mine, mine[1:], strict=False) if pair in pairs]
        alone = [singles[word] for word in set(mine) if word in singles]
        return PAIR_WEIGHT * len(found) + len(alone), -min(found + alone, default=0)

    return max(texts, key=score)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _first_places(items: list[tuple[str, str]] | list[str]) -> dict[object, int]:
    places: dict[object, int] = {}
    for place, item in enumerate(items):
        places.setdefault(item, place)
    return places

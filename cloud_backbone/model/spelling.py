# SPDX-License-Identifier: Apache-2.0
"""Undoes slips of the finger in words that decide what is meant.

A slip drops, doubles or swaps letters behind the first one. Knows words, not sentences: a word
that is one slip away from a known one becomes it, all others stay.
"""

from __future__ import annotations

from collections.abc import Iterable
import re

SHORTEST = 4
"""Shorter words are one slip away from too many others."""
REAL_WORDS = frozenset({'back', 'whit'})
"""Words that look like a slip and are none."""
_WORD = re.compile(r'[a-z]+')


class Spelling:
    """Corrects towards a closed set of words, in lower case."""

    def __init__(self, words: Iterable[str]) -> None:
        known = [word for word in words if len(word) >= SHORTEST]
        self._right = {slip: word for word in known for slip in slips_of(word)}
        for word in known:
            self._right.pop(word, None)

    def correct(self, text: str) -> str:
        """Return the text with slips undone."""
        return _WORD.sub(lambda match: self._right.get(match[0], match[0]), text)


def slips_of(word: str) -> set[str]:
    """Return what a word may become by one slip behind its first letter."""
    behind = range(1, len(word))
    dropped = {word[:i] + word[i + 1 :] for i in behind if len(word) > SHORTEST}
    doubled = {word[:i] + word[i] + word[i:] for i in range(len(word))}
    swapped = {word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1)}
    return (dropped | doubled | swapped) - REAL_WORDS

# SPDX-License-Identifier: Apache-2.0
"""From a sentence to the numbers of its words, in one way for training and for use.

Knows no language: a word is what stands between spaces and punctuation.
"""

from collections.abc import Mapping, Sequence
import re

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r'\w+')


def split_words(text: str) -> list[str]:
    """Return the words of a sentence in lower case."""
    return _WORD.findall(text.lower())


def word_numbers(
    words: Sequence[str], numbers: Mapping[str, int], most: int
) -> NDArray[np.int64]:
    """Return the words' numbers from 1 on, (most,), filled up with 0.

    Raises:
      KeyError: for a word that has no number.
      ValueError: for more words than ``most``.
    """
    if len(words) > most:
        raise ValueError(f'{len(words)} words; at most {most} are read')
    row = np.zeros(most, dtype=np.int64)
    row[:len(words)] = [numbers[word] for word in words]
    return row

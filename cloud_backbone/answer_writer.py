# SPDX-License-Identifier: Apache-2.0
"""What all writers of answers share: how far a guess was right, and how sure the model was.

Knows tokens and choices; what may be chosen is the business of each writer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor


class AnswerWriter(ABC):
    """Writes one answer. Give it the logits that follow the tokens it gave, until ``draft``."""

    opening: list[int]
    """Tokens with which every such answer begins; they go in with the prompt."""
    probabilities: list[float]
    """Probability of each free choice, as the model saw it among all its tokens."""
    draft: object
    """The answer; None while it is not complete."""

    @abstractmethod
    def choose(self, logits: Tensor) -> list[int]:
        """Take the best allowed token; return it and all that must follow it.

        Args:
            logits: scores of the next token (vocabulary,).
        """

    @property
    def confidence(self) -> float:
        """Mean probability of the free choices; 0 before the first."""
        return sum(self.probabilities) / max(len(self.probabilities), 1)

    def advance(self, logits: Tensor, guess: Sequence[int]) -> tuple[int, list[int]]:
        """Choose as far as the guess was right, and once more.

        Args:
            logits: scores of the next token after what was written, and after each token of the
                guess (1 + guess, vocabulary).
            guess: tokens that were computed along.

        Returns:
            How many tokens of the guess are kept, and the tokens that follow them.
        """
        kept = 0
        while True:
            chunk = self.choose(logits[kept])
            agreed = 0
            while agreed < len(chunk) and [chunk[agreed]] == list(guess[kept : kept + 1]):
                agreed, kept = agreed + 1, kept + 1
            if agreed < len(chunk) or self.draft is not None:
                return kept, chunk[agreed:]

# SPDX-License-Identifier: Apache-2.0
"""Which tokens may come next under a grammar: a small interface, and llguidance behind it.

A matcher follows one text. It can be copied where thoughts branch, and asked which tokens are
forced, so that they are computed together. Knows grammars and tokens; knows no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import llguidance
import llguidance.hf
import numpy as np
from torch import from_numpy, Tensor

MOST_COMPILED = 256
"""Grammars that are kept; what was compiled first goes first."""


class GrammarMatcher(Protocol):
    """The state of one text under one grammar."""

    @property
    def is_complete(self) -> bool:
        """Whether the text may end here."""

    def allowed(self) -> Tensor:
        """Return the ids of the tokens that may come next (tokens,), the end token among them."""

    def forced(self) -> list[int]:
        """Return the tokens that must come next, as far as there is no choice."""

    def count_valid(self, tokens: Sequence[int]) -> int:
        """Count how many of these tokens could come next, in this order."""

    def take(self, tokens: Sequence[int]) -> None:
        """Go on by tokens.

        Raises:
            ValueError: one of them may not come here.
        """

    def fork(self) -> GrammarMatcher:
        """Return a matcher of the same state that goes on by itself."""


class LlgMatcher:
    """A matcher of llguidance."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    @property
    def is_complete(self) -> bool:
        """Whether the text may end here."""
        return bool(self._matcher.is_accepting())

    def allowed(self) -> Tensor:
        """Return the ids of the tokens that may come next (tokens,), the end token among them."""
        mask = np.frombuffer(self._matcher.compute_logit_bias(), dtype=np.uint8)
        return from_numpy(np.flatnonzero(mask))

    def forced(self) -> list[int]:
        """Return the tokens that must come next, as far as there is no choice."""
        return list(self._matcher.compute_ff_tokens())

    def count_valid(self, tokens: Sequence[int]) -> int:
        """Count how many of these tokens could come next, in this order."""
        return int(self._matcher.validate_tokens(list(tokens)))

    def take(self, tokens: Sequence[int]) -> None:
        """Go on by tokens. Raises ValueError where one of them may not come."""
        if not self._matcher.consume_tokens(list(tokens)):
            raise ValueError(f'tokens {list(tokens)} break the grammar: {self._error()}')

    def fork(self) -> LlgMatcher:
        """Return a matcher of the same state that goes on by itself."""
        return LlgMatcher(self._matcher.deep_copy())

    def _error(self) -> str:
        return str(self._matcher.get_error()).strip().split('\n')[0]


class Grammars:
    """Matchers for one tokenizer; a grammar is compiled once and forked from then on.

    Args:
        tokenizer: of transformers, a fast one.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = llguidance.hf.from_tokenizer(tokenizer)
        self._compiled: dict[str, LlgMatcher] = {}

    def matcher(self, grammar: str) -> LlgMatcher:
        """Return a matcher at the beginning of a Lark grammar.

        Raises:
            ValueError: it is no grammar; the message says where.
        """
        if grammar not in self._compiled:
            form = llguidance.LLMatcher.grammar_from_lark(grammar)
            problem = llguidance.LLMatcher.validate_grammar(form)
            if problem:
                raise ValueError(f'not a grammar: {problem.strip()}')
            while len(self._compiled) >= MOST_COMPILED:
                del self._compiled[next(iter(self._compiled))]
            self._compiled[grammar] = LlgMatcher(llguidance.LLMatcher(self._tokenizer, form))
        return self._compiled[grammar].fork()

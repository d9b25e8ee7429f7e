# SPDX-License-Identifier: Apache-2.0
"""A transformers tokenizer as constrained decoding wants it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from cloud_backbone.act import SPELLED, Symbols
from cloud_backbone.agent_words import AGENT_TOKENS
from cloud_backbone.grammar_matcher import GrammarMatcher, Grammars
from cloud_backbone.plan_grammar import LOCATION_TOKENS
from torch import Tensor, tensor


class TokenizerCodec:
    """Encodes plan text; knows whether the tokenizer has tokens for locations and agent words."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        ids = tokenizer.get_vocab()
        self.end_id: int = tokenizer.eos_token_id
        self.location_ids: Tensor | None = None
        if all(token in ids for token in LOCATION_TOKENS):
            self.location_ids = tensor([ids[token] for token in LOCATION_TOKENS])
        self.symbols = SPELLED
        if self.location_ids is not None and all(word in ids for word in AGENT_TOKENS):
            first, last = int(self.location_ids[0]), int(self.location_ids[-1])
            self.symbols = Symbols(lambda word: f'<[{ids[word]}]>', f'<[{first}-{last}]>')

    @cached_property
    def _grammars(self) -> Grammars:
        return Grammars(self._tokenizer)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a piece of text, without special tokens."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""
        return str(self._tokenizer.decode(list(tokens)))

    def matcher(self, grammar: str) -> GrammarMatcher:
        """Return a matcher at the beginning of a Lark grammar."""
        return self._grammars.matcher(grammar)

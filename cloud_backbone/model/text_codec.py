# SPDX-License-Identifier: Apache-2.0
"""A transformers tokenizer as constrained decoding wants it."""

from __future__ import annotations

from typing import Any

from cloud_backbone.plan_grammar import LOCATION_TOKENS
from torch import Tensor, tensor


class TokenizerCodec:
    """Encodes pieces of plan text; knows whether the tokenizer has location tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        ids = tokenizer.get_vocab()
        self.location_ids: Tensor | None = None
        if all(token in ids for token in LOCATION_TOKENS):
            self.location_ids = tensor([ids[token] for token in LOCATION_TOKENS])

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a piece of text, without special tokens."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

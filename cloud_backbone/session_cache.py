# SPDX-License-Identifier: Apache-2.0
"""The key-value cache that one session keeps between turns, with the tokens it was made from.

Grows by appending and shrinks by cropping its end, nothing else. Knows no model and no plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cloud_backbone.cache_rows import keep_first
from cloud_backbone.model.backbone import Prompt
from transformers.cache_utils import Cache, DynamicCache


class SessionCache:
    """Keys and values of ``tokens``; the cache may be any that transformers knows."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything, for example after an error in the middle of a turn."""
        self.cache: Cache = DynamicCache()
        self._tokens: tuple[int, ...] = ()
        self._stable = 0
        self.last_text = ''
        """What was last written for this very instruction, if anything."""

    def reuse(self, prompt: Prompt) -> int:
        """Crop to the tokens that this prompt begins with; return how many are left.

        Tokens that depend on an image are never reused: another image has the same tokens.
        """
        limit = min(self._stable, prompt.stable, len(self._tokens))
        shared = 0
        while shared < limit and self._tokens[shared] == prompt.tokens[shared]:
            shared += 1
        if shared < prompt.stable or self._stable != prompt.stable:
            self.last_text = ''
        keep_first(self.cache, shared)
        self._tokens = self._tokens[:shared]
        return shared

    def hold(self, cache: Cache, tokens: Sequence[int], stable: int, text: str) -> None:
        """Take over a cache of exactly these tokens, the first ``stable`` without image."""
        held = cache.get_seq_length()
        assert held == len(tokens), f'cache holds {held} tokens, told {len(tokens)}'
        self.cache, self._tokens, self._stable = cache, tuple(tokens), stable
        self.last_text = text

    def __len__(self) -> int:
        """Count the tokens held."""
        return len(self._tokens)

    @property
    def byte_count(self) -> int:
        """Bytes of all keys and values [B]."""
        layers: list[Any] = self.cache.layers if len(self) else []
        # Layers that keep no keys (linear attention) have no such attributes.
        owned = [getattr(layer, name, None) for layer in layers for name in ('keys', 'values')]
        return sum(part.numel() * part.element_size() for part in owned if part is not None)

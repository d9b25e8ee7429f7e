# SPDX-License-Identifier: Apache-2.0
"""One plan as it is being written: logits in, the next tokens out.

Tokens without alternative come out together with the token that was chosen, so that they cost
one forward of the model. Knows tokens and the plan grammar; knows no model, no cache, no image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cloud_backbone.act import Symbols
from cloud_backbone.answer_writer import AnswerWriter
from cloud_backbone.grammar_matcher import GrammarMatcher
from cloud_backbone.plan_grammar import (
    bin_of,
    Choice,
    LOCATION_BINS,
    LOCATION_TOKENS,
    moves,
    PlanDraft,
    Reply,
    value_of,
)
from cloud_backbone.plan_guess import best_guess
from cloud_backbone.plan_vocabulary import Vocabulary
from cloud_backbone.token_trie import build_trie, TrieNode
import torch
from torch import Tensor

LOCATION_WINDOW = 4
SPELLED = Choice(LOCATION_TOKENS, LOCATION_TOKENS)


class TextCodec(Protocol):
    """What decoding needs of a tokenizer."""

    location_ids: Tensor | None
    """Tokens of the 128 locations (128,), or None if locations are spelled."""

    symbols: Symbols
    """How words and locations are written in a grammar."""
    end_id: int
    """Token that ends an answer."""

    def encode(self, text: str) -> Sequence[int]:
        """Return the tokens of a piece of text, without special tokens."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""

    def matcher(self, grammar: str) -> GrammarMatcher:
        """Return a matcher at the beginning of a Lark grammar."""


@dataclass
class PlanLanguage:
    """Vocabulary and tokenizer of one model, with the tries that were built so far."""

    vocabulary: Vocabulary
    codec: TextCodec
    _tries: dict[tuple[str, ...], TrieNode] = field(default_factory=dict)

    def trie(self, texts: tuple[str, ...]) -> TrieNode:
        """Return the tree of these texts' tokens."""
        if texts not in self._tries:
            self._tries[texts] = build_trie(texts, self.codec.encode)
        return self._tries[texts]


def locate(bins: Tensor) -> tuple[float, float]:
    """Return the expected bin around the likeliest of probabilities (bins,), and their sum."""
    peak = int(bins.argmax())
    first = max(peak - LOCATION_WINDOW, 0)
    near = bins[first : peak + LOCATION_WINDOW + 1].double()
    mass = float(near.sum())
    index = first + float(near @ torch.arange(len(near)).double()) / max(mass, 1e-30)
    return min(index, LOCATION_BINS - 1), mass


class PlanWriter(AnswerWriter):
    """Writes one plan. Give it the logits that follow the tokens it gave, until ``draft``.

    With ``strict``, only plans that make sense can be written; with ``refusable`` off too, none
    that says the thing is not there.
    """

    def __init__(
        self, language: PlanLanguage, strict: bool = False, refusable: bool = True
    ) -> None:
        self.draft: PlanDraft | None = None
        self.probabilities: list[float] = []
        """Probability of each free choice, as the model saw it among all its tokens."""
        self._language, self._strict = language, strict
        self._moves = moves(language.vocabulary, refusable)
        self._choice: Choice | None = None
        """What is being chosen; None while a location is due."""
        self._node = TrieNode()
        self._begun: list[int] = []
        """Tokens of the choice that are written already."""
        self._said = ''
        self.opening = self._next_move(None)
        """Tokens with which every plan begins; they go in with the prompt."""

    def guess(self, hint: str) -> list[int]:
        """Return tokens that may well come next, as far as words can tell; changes nothing."""
        if self.draft is not None or self._choice is None or self._choice is SPELLED:
            return []
        texts = self._choice.sensible or self._choice.texts
        text = best_guess(texts, hint, self._said)
        tokens, count = list(self._language.codec.encode(text)), len(self._begun)
        return tokens[count:] if tokens[:count] == self._begun else []

    def choose(self, logits: Tensor) -> list[int]:
        """Take the best allowed token; return it and all that must follow it.

        Args:
            logits: scores of the next token (vocabulary,).
        """
        assert self.draft is None, 'the plan is finished'
        probabilities = torch.softmax(logits.float(), -1)
        if self._choice is None:
            return self._locate(probabilities)
        assert self._node.next_ids is not None
        allowed = probabilities[self._node.next_ids]
        index = int(allowed.argmax())
        self.probabilities.append(float(allowed[index]))
        token = int(self._node.next_ids[index])
        self._begun.append(token)
        return [token, *self._follow(self._node.children[token])]

    def _locate(self, probabilities: Tensor) -> list[int]:
        location_ids = self._language.codec.location_ids
        assert location_ids is not None
        index, mass = locate(probabilities[location_ids])
        self.probabilities.append(mass)
        value = value_of(index)
        return [int(location_ids[bin_of(value)]), *self._next_move(value)]

    def _follow(self, node: TrieNode) -> list[int]:
        tokens, self._node = node.forced()
        self._begun += tokens
        if self._node.text is None:
            return tokens
        if self._choice is SPELLED:
            value = value_of(LOCATION_TOKENS.index(self._node.text))
            return tokens + self._next_move(value)
        self._said += self._node.text
        return tokens + self._next_move(self._node.text)

    def _next_move(self, reply: Reply | None) -> list[int]:
        try:
            move = self._moves.send(reply)  # type: ignore[arg-type]
        except StopIteration as end:
            self.draft = end.value
            return []
        self._choice = move if isinstance(move, Choice) else None
        if self._choice is None and self._language.codec.location_ids is None:
            self._choice = SPELLED
        if self._choice is None:
            return []
        self._begun = []
        texts = self._choice.sensible if self._strict else self._choice.texts
        return self._follow(self._language.trie(texts))

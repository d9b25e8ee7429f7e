# SPDX-License-Identifier: Apache-2.0
"""Lets a model write one act or one lesson, and nothing else: the grammar decides what may come.

Same conversation as ``constrained_decoding.PlanWriter``. Where a location is due, the expectation
around the likeliest bin is taken. Knows tokens and grammars; knows no model, no cache, no image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cloud_backbone.act import Act, act_grammar, Bounds, lesson_grammar, parse_act, parse_lesson
from cloud_backbone.agent_words import HOLDING, Lesson
from cloud_backbone.answer_writer import AnswerWriter
from cloud_backbone.constrained_decoding import locate, PlanLanguage
from cloud_backbone.plan_grammar import bin_of, value_of
from cloud_backbone.plan_guess import best_guess
from cloud_backbone.plan_vocabulary import Thing
import torch
from torch import Tensor


class ActWriter(AnswerWriter):
    """Writes one act, or one lesson. Give it the logits that follow its tokens until ``draft``.

    Args:
        language: of the model.
        bounds: of the act; None: a lesson is written instead.
        about: what the lesson is about, if that is known.
    """

    def __init__(
        self, language: PlanLanguage, bounds: Bounds | None, about: Thing | None = None
    ) -> None:
        self.draft: Act | Lesson | None = None
        self.probabilities: list[float] = []
        """Probability of each free choice, as the model saw it among all its tokens."""
        self._language, self._is_over = language, bounds is None
        codec, vocabulary = language.codec, language.vocabulary
        grammar = (
            lesson_grammar(vocabulary, codec.symbols, about) if bounds is None
            else act_grammar(vocabulary, codec.symbols, bounds)
        )
        self._matcher = codec.matcher(grammar)
        self._tokens: list[int] = []
        self._located: list[float] = []
        """Locations so far, finer than their tokens."""
        self.opening = self._follow([])
        """Tokens with which every such text begins; they go in with the prompt."""

    def guess(self, hint: str) -> list[int]:
        """Return tokens that may well come next, as far as words can tell; changes nothing."""
        if self.draft is not None:
            return []
        text = self._language.codec.decode(self._tokens)
        tokens = self._language.codec.encode(best_guess(self._likely(text), hint, text))
        return list(tokens[: self._matcher.count_valid(tokens)])

    def choose(self, logits: Tensor) -> list[int]:
        """Take the best allowed token; return it and all that must follow it.

        Args:
            logits: scores of the next token (vocabulary,).
        """
        assert self.draft is None, 'the act is finished'
        probabilities = torch.softmax(logits.float(), -1)
        allowed = self._matcher.allowed()
        locations = self._language.codec.location_ids
        if locations is not None and torch.equal(allowed, locations):
            index, mass = locate(probabilities[locations])
            self.probabilities.append(mass)
            self._located.append(value_of(index))
            return self._follow([int(locations[bin_of(value_of(index))])])
        best = int(probabilities[allowed].argmax())
        self.probabilities.append(float(probabilities[allowed[best]]))
        token = int(allowed[best])
        if token == self._language.codec.end_id:
            return self._finish([])
        return self._follow([token])

    def _follow(self, tokens: list[int]) -> list[int]:
        """Write tokens and what must follow them."""
        self._write(tokens)
        while not self._matcher.is_complete and (forced := self._matcher.forced()):
            self._write(forced)
            tokens = [*tokens, *forced]
        if self._matcher.is_complete and len(self._matcher.allowed()) <= 1:
            return self._finish(tokens)
        return tokens

    def _write(self, tokens: Sequence[int]) -> None:
        self._matcher.take(tokens)
        self._tokens += tokens

    def _finish(self, tokens: list[int]) -> list[int]:
        text, vocabulary = self._language.codec.decode(self._tokens), self._language.vocabulary
        if self._is_over:
            self.draft = parse_lesson(text, vocabulary)
        else:
            self.draft = self._sharpened(parse_act(text, vocabulary))
        return tokens

    def _sharpened(self, act: Act) -> Act:
        """Return the act with its locations as fine as they were read."""
        if not self._located:
            return act
        values = iter(self._located)
        points = [
            (next(values), next(values)) if point is not None else None
            for point in (act.a_point, act.b_point)
        ]
        return replace(act, a_point=points[0], b_point=points[1])

    def _likely(self, text: str) -> list[str]:
        """Return texts that may follow, one of which the hint will make likely."""
        things = self._language.vocabulary.things
        if self._is_over:
            return [f' {thing}' for thing in things]
        if not text:
            return [f' The {thing} is at ' for thing in things]
        if text.startswith(HOLDING) and text.endswith(' the'):
            return [f' {thing}' for thing in things]
        if ', the ' not in text and text.endswith('>'):
            return [f', the {thing} at ' for thing in things]
        return ['']

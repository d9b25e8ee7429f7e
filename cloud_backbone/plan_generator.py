# SPDX-License-Identifier: Apache-2.0
"""Images and instructions in, drafts of plans out: see, prefill, decode, for one batch of turns.

Knows the model's interface, caches and the plan grammar. Knows no robot: what a draft means in
space is the business of ``grounding``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cloud_backbone.cache_rows import CacheRows, keep_first
from cloud_backbone.constrained_decoding import PlanWriter
from cloud_backbone.model.backbone import Backbone, Chunk, Image, Prompt, Scene
from cloud_backbone.plan_grammar import fault_of, PlanDraft
from cloud_backbone.session_cache import SessionCache
from protos.latency import Stopwatch
from torch import Tensor
from transformers.cache_utils import Cache

LEAST_PROBABILITY = 0.1
"""Each choice of a plan that had to be corrected must be this likely; else it is refused."""


@dataclass(frozen=True)
class Question:
    """One turn, as the model sees it. No two questions of a batch share a cache."""

    instruction: str
    image: Image
    cache: SessionCache


@dataclass(frozen=True)
class Written:
    """What the model wrote for one question."""

    draft: PlanDraft
    confidence: float
    fault: str | None = None
    """Why the draft makes no sense, if it does not."""
    latent: tuple[float, ...] = ()
    reused_tokens: int = 0
    computed_tokens: int = 0


@dataclass
class _Row:
    """One question while its plan is written."""

    prompt: Prompt
    writer: PlanWriter
    state: Tensor | None = None
    """State of the last plan token (hidden,)."""
    computed: int = 0
    """Tokens of the answer that were computed, corrections included."""

    def __post_init__(self) -> None:
        """Begin with the prompt and what every answer begins with."""
        self.tokens = [*self.prompt.tokens, *self.writer.opening]
        """All tokens in the cache."""


@dataclass
class _Batch:
    """Rows that are computed together, and the logits (batch, vocabulary) that come next."""

    rows: list[_Row]
    caches: CacheRows
    logits: Tensor


class PlanGenerator:
    """Writes plans with one backbone. Not thread-safe: call it from the model's thread."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone = backbone

    def generate(self, questions: Sequence[Question], stopwatch: Stopwatch) -> list[Written]:
        """Write one plan per question; the stages vision, prefill and decode are timed.

        On an error the sessions' caches are cleared, so that the next turn starts afresh.
        """
        assert len(questions) == 1 or self.backbone.can_batch, 'this model takes single turns'
        try:
            with stopwatch.measure('vision'):
                scenes = self.backbone.see([question.image for question in questions])
            with stopwatch.measure('prefill'):
                prompts = [self.backbone.prompt(question.instruction) for question in questions]
                reused = [
                    question.cache.reuse(prompt)
                    for question, prompt in zip(questions, prompts, strict=True)
                ]
                batch = self._prefill(questions, prompts, reused, scenes)
            with stopwatch.measure('decode'):
                return self._write(questions, batch, reused)
        except BaseException:
            for question in questions:
                question.cache.clear()
            raise

    def _prefill(
        self,
        questions: Sequence[Question],
        prompts: Sequence[Prompt],
        reused: Sequence[int],
        scenes: Sequence[Scene],
    ) -> _Batch:
        caches = CacheRows([question.cache.cache for question in questions])
        rows = [_Row(prompt, PlanWriter(self.backbone.language)) for prompt in prompts]
        fresh = [row.tokens[count:] for row, count in zip(rows, reused, strict=True)]
        return self._predict(rows, caches, fresh, scenes)

    def _predict(
        self,
        rows: list[_Row],
        caches: CacheRows,
        chunks: Sequence[Sequence[int]],
        scenes: Sequence[Scene] | None = None,
    ) -> _Batch:
        """Compute the next tokens of each row; an empty chunk leaves a row as it is."""
        tokens, positions, mask = caches.append(chunks)
        prompts = [row.prompt for row in rows]
        prediction = self.backbone.forward(
            Chunk(tokens, positions, mask, prompts, scenes), caches.cache
        )
        if prediction.hidden is not None:
            for row, chunk, state in zip(rows, chunks, prediction.hidden, strict=True):
                row.state = state[-1] if chunk else row.state
        return _Batch(rows, caches, prediction.logits[:, -1])

    def _write(
        self, questions: Sequence[Question], batch: _Batch, reused: Sequence[int]
    ) -> list[Written]:
        self._decode(batch)
        written = []
        for index, cache in enumerate(batch.caches.part()):
            row = batch.rows[index]
            fault = self._fault(row)
            if fault is not None:
                row = self._correct(row, cache)
                if min(row.writer.probabilities) >= LEAST_PROBABILITY:
                    fault = None
            questions[index].cache.hold(cache, row.tokens, row.prompt.stable)
            written.append(self._written(row, fault, reused[index]))
        return written

    def _fault(self, row: _Row) -> str | None:
        assert row.writer.draft is not None
        return fault_of(row.writer.draft, self.backbone.language.vocabulary)

    def _correct(self, row: _Row, cache: Cache) -> _Row:
        """Write the plan once more, this time with sense forced upon it."""
        kept = len(row.prompt.tokens) - 1
        keep_first(cache, kept)
        again = _Row(row.prompt, PlanWriter(self.backbone.language, strict=True))
        caches = CacheRows([cache])
        batch = self._predict([again], caches, [again.tokens[kept:]])
        again.computed += row.computed + 1
        self._decode(batch)
        return again

    def _decode(self, batch: _Batch) -> None:
        """Let all rows write, one choice each per forward, until every draft is complete."""
        while True:
            chunks = [
                self._next_chunk(row, batch.logits[index]) for index, row in enumerate(batch.rows)
            ]
            if not any(chunks):
                return
            batch = self._predict(batch.rows, batch.caches, chunks)

    def _next_chunk(self, row: _Row, logits: Tensor) -> list[int]:
        if row.writer.draft is not None:
            return []
        chunk = row.writer.choose(logits)
        if row.writer.draft is not None and not self._wants_latent(row.writer.draft):
            return []  # nobody needs the state after the last word
        row.tokens += chunk
        row.computed += len(chunk)
        return chunk

    def _wants_latent(self, draft: PlanDraft) -> bool:
        return self.backbone.latent_size > 0 and draft.outcome == 'steps'

    def _written(self, row: _Row, fault: str | None, reused: int) -> Written:
        draft = row.writer.draft
        assert draft is not None
        latent: tuple[float, ...] = ()
        if fault is None and row.state is not None and self._wants_latent(draft):
            latent = tuple(self.backbone.latent(row.state))
        computed = len(row.prompt.tokens) + len(row.writer.opening) - reused + row.computed
        return Written(draft, row.writer.confidence, fault, latent, reused, computed)

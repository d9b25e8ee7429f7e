# SPDX-License-Identifier: Apache-2.0
"""Images and instructions in, drafts out: see, prefill, decode, for one batch of turns.

Single questions get plans, questions with a memory get acts or lessons; both share a batch. Knows
the model's interface and caches. Knows no robot: what a draft means in space is the business of
``grounding``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cloud_backbone.act_bounds import bounds_of, tried_thing
from cloud_backbone.act_writer import ActWriter
from cloud_backbone.action_plan import Certificate
from cloud_backbone.agent_words import Lesson
from cloud_backbone.cache_rows import CacheRows, keep_first
from cloud_backbone.constrained_decoding import PlanWriter
from cloud_backbone.draft_check import as_seen, contradicts, Draft, fault_in, hint_of
from cloud_backbone.kv_state.segment import STABLE
from cloud_backbone.model.backbone import Backbone, Chunk, Image, Prediction, Prompt, Scene
from cloud_backbone.plan_grammar import PlanDraft
from cloud_backbone.plan_probe import likely_answer
from cloud_backbone.sighting import Sighting
from cloud_backbone.task_memory import Purpose, TaskMemory
from cloud_backbone.turn_cache import Sight, sight_of, TurnCache
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
    cache: TurnCache
    memory: TaskMemory | None = None
    """All of the task so far: an act or a lesson is written; None: a plan."""
    epoch: int = 0
    """Observation that the image is of."""


@dataclass(frozen=True)
class Written:
    """What the model wrote for one question."""

    draft: Draft
    confidence: float
    fault: str | None = None
    """Why the draft makes no sense, if it does not."""
    latent: tuple[float, ...] = ()
    reused_tokens: int = 0
    computed_tokens: int = 0
    certificate: Certificate | None = None
    sightings: tuple[Sighting, ...] = ()


@dataclass
class _Row:
    """One question while its plan is written."""

    question: Question
    sight: Sight
    prompt: Prompt
    writer: PlanWriter | ActWriter
    hint: str
    """Words that the model has seen or written before."""
    reused: int = 0
    """Tokens that were in the cache before the turn."""
    tokens: list[int] = field(init=False)
    """All tokens that stay in the cache."""
    guess: list[int] = field(default_factory=list)
    """Tokens that are in the cache too, until the model has decided."""
    probe: list[int] = field(default_factory=list)
    """Tokens behind the guess that only show what an answer looks at."""
    state: Tensor | None = None
    """State of the last token that stays (hidden,)."""

    def __post_init__(self) -> None:
        """Begin with the prompt and what every answer begins with."""
        self.tokens = [*self.prompt.tokens, *self.writer.opening]

    @property
    def draft(self) -> Draft:
        """What was written."""
        assert self.writer.draft is not None
        return self.writer.draft

    def pins(self) -> list[tuple[int, int]]:
        """Return spans that no policy may drop while the answer is written."""
        spans = [] if self.prompt.vital is None else [self.prompt.vital]
        stable = sum(size for name, size in self.prompt.parts if name in STABLE)
        if self.question.memory is not None and stable:
            spans.insert(0, (0, stable))
        return spans


class PlanGenerator:
    """Writes plans with one backbone. Not thread-safe: call it from the model's thread.

    Args:
        backbone: the model.
        guess: compute likely tokens along, so that a right guess saves a forward each.
    """

    def __init__(self, backbone: Backbone, guess: bool = True) -> None:
        self.backbone = backbone
        self._guess = guess

    def generate(self, questions: Sequence[Question], stopwatch: Stopwatch) -> list[Written]:
        """Write one plan per question; the stages vision, prefill and decode are timed.

        On an error the sessions' caches are cleared, so that the next turn starts afresh.
        """
        assert len(questions) == 1 or self.backbone.can_batch, 'this model takes single turns'
        try:
            with stopwatch.measure('vision'):
                scenes = self.backbone.see([question.image for question in questions])
            with stopwatch.measure('prefill'):
                rows = [self._row(question) for question in questions]
                caches = CacheRows([question.cache.open(self.backbone) for question in questions])
                fresh = [row.tokens[row.reused :] for row in rows]
                prediction = self._predict(rows, caches, fresh, scenes)
            with stopwatch.measure('decode'):
                self._decode(rows, caches, prediction)
                asked = zip(questions, rows, scenes, strict=True)
                return [self._finish(*parts) for parts in asked]
        except BaseException:
            for question in questions:
                question.cache.clear()
            raise

    def _row(self, question: Question) -> _Row:
        prompt = self.backbone.prompt(question.instruction, question.memory)
        sight = sight_of(question.image, question.epoch)
        question.cache.open(self.backbone)
        reused = question.cache.reuse(prompt, sight)
        hint = question.cache.last_text or question.instruction
        return _Row(question, sight, prompt, self._writer(question), hint, reused)

    def _writer(
        self, question: Question, strict: bool = False, refusable: bool = True
    ) -> PlanWriter | ActWriter:
        language, memory = self.backbone.language, question.memory
        if memory is None:
            return PlanWriter(language, strict, refusable)
        vocabulary = language.vocabulary
        if memory.purpose is Purpose.REFLECT:
            return ActWriter(language, None, tried_thing(memory.entries, vocabulary))
        return ActWriter(language, bounds_of(memory, vocabulary, refusable))

    def _predict(
        self,
        rows: Sequence[_Row],
        caches: CacheRows,
        chunks: Sequence[Sequence[int]],
        scenes: Sequence[Scene] | None = None,
    ) -> Prediction:
        """Compute the next tokens of each row and a guess; an empty chunk leaves a row alone."""
        for row, chunk in zip(rows, chunks, strict=True):
            row.guess = row.writer.guess(row.hint) if chunk and self._guess else []
        self._probe(rows, caches, scenes is not None)
        caches.align()
        tokens, positions, mask = caches.append([
            [*chunk, *row.guess, *row.probe] for row, chunk in zip(rows, chunks, strict=True)
        ])
        prompts = [row.prompt for row in rows]
        if scenes is not None:
            # A row that has held on to the very same image shows it no more.
            image = self.backbone.image_token
            scenes = [
                scene for chunk, scene in zip(chunks, scenes, strict=True) if image in chunk
            ] or None
        predict = 1 + max(len(row.guess) + len(row.probe) for row in rows)
        return self.backbone.forward(
            Chunk(tokens, positions, mask, prompts, scenes, predict), caches.cache
        )

    def _probe(self, rows: Sequence[_Row], caches: CacheRows, begins: bool) -> None:
        """Let policies that rank the prompt see a likely answer, where an answer begins."""
        for index, row in enumerate(rows):
            row.probe = []
            if begins and caches.ranks(index):
                known = [*row.writer.opening, *row.guess]
                likely = self._likely(row)
                if likely[: len(known)] == known:
                    row.probe = likely[len(known) :]

    def _likely(self, row: _Row) -> list[int]:
        if row.question.memory is None:
            return likely_answer(self.backbone.language, row.hint)
        return []  # what an act looks at is near what the last one did, or in the guess

    def _decode(
        self, rows: Sequence[_Row], caches: CacheRows, prediction: Prediction
    ) -> None:
        """Let all rows write until every draft is complete, one forward at a time.

        What was computed before is settled first: plans are written from what the policy keeps.
        """
        active = [True] * len(rows)
        written = False
        while True:
            chunks = [
                self._take(row, index, caches, prediction) if active[index] else []
                for index, row in enumerate(rows)
            ]
            if not written:
                caches.commit([row.pins() for row in rows])
                written = True
            active = [bool(chunk) for chunk in chunks]
            if not any(active):
                return
            prediction = self._predict(rows, caches, chunks)

    def _take(
        self, row: _Row, index: int, caches: CacheRows, prediction: Prediction
    ) -> list[int]:
        """Decide what follows in one row; return the tokens to compute next, if any."""
        first = -1 - len(row.guess) - len(row.probe)
        kept, chunk = 0, list[int]()
        if row.writer.draft is None:
            kept, chunk = row.writer.advance(prediction.logits[index, first:], row.guess)
        if prediction.hidden is not None:
            row.state = prediction.hidden[index, first + kept]
        caches.retract(index, len(row.guess) - kept + len(row.probe))
        row.tokens += row.guess[:kept]
        if row.writer.draft is not None and not self._wants_latent(row.writer.draft):
            return []  # nobody needs the state after the last word
        row.tokens += chunk
        return chunk

    def _finish(self, question: Question, row: _Row, scene: Scene) -> Written:
        draft, reused = row.draft, row.reused
        vocabulary = self.backbone.language.vocabulary
        fault, computed = fault_in(draft, vocabulary), len(row.tokens) - row.reused
        denied = contradicts(draft, scene.sightings)
        if fault is not None or denied:
            kept = len(row.prompt.tokens) - 1
            cache = question.cache.open(self.backbone)
            row = self._correct(row, cache, kept, refusable=not denied)
            computed += len(row.tokens) - kept
            if min(row.writer.probabilities, default=1.0) >= LEAST_PROBABILITY or denied:
                draft, fault = row.draft, fault_in(row.draft, vocabulary)
        draft = as_seen(draft, scene.sightings, question.memory)
        latent: tuple[float, ...] = ()
        if fault is None and row.state is not None and self._wants_latent(draft):
            latent = tuple(self.backbone.latent(row.state))
        question.cache.hold(row.prompt, row.tokens, row.sight, hint_of(draft))
        return Written(
            draft, row.writer.confidence, fault, latent, reused, computed,
            question.cache.certificate(row.sight), tuple(scene.sightings),
        )

    def _correct(self, row: _Row, cache: Cache, kept: int, refusable: bool) -> _Row:
        """Write the plan once more, this time with sense forced upon it."""
        keep_first(cache, kept)
        writer = self._writer(row.question, strict=True, refusable=refusable)
        again = _Row(row.question, row.sight, row.prompt, writer, row.hint)
        caches = CacheRows([cache])
        prediction = self._predict([again], caches, [again.tokens[kept:]])
        self._decode([again], caches, prediction)
        return again

    def _wants_latent(self, draft: Draft) -> bool:
        if isinstance(draft, PlanDraft) and draft.outcome != 'steps':
            return False
        return self.backbone.latent_size > 0 and not isinstance(draft, Lesson)

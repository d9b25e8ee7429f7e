# SPDX-License-Identifier: Apache-2.0
"""One method at one budget: what it forgets, and what it weighs.

The likelihood is measured in decode mode: the context goes into the cache, then the text that
follows is fed through the cache, so that every prediction reads what the method kept. Knows no
method by name.
"""

from dataclasses import dataclass
from typing import Any

from tendon.bench_kv.method import Method
from tendon.bench_kv.model_calls import release, rows
from tendon.bench_kv.passage import Needle, Passage
from tendon.bench_kv.recording import record, Recording
from tendon.bench_kv.stock_caches import fork_layers
from tendon.bench_kv.subject import Subject
import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Quality:
    """What one method did at one budget."""

    name: str
    maker: str
    share: float | None
    """Bytes that were asked for, of all keys and values at 16 bits."""
    bytes_ratio: float
    """Bytes of all keys and values at 16 bits over the method's, after the context."""
    bytes_ratio_end: float
    """The same after the text that follows."""
    nll: float
    """Of the text that follows [nat a token]."""
    nll_rise: float
    """Of the full cache's."""
    nll_rise_error: float
    """Standard error of the rise over the tokens."""
    kl: float
    """Divergence of the full cache's predictions from the method's [nat a token]."""
    top1: float
    """How often both call the same token likeliest."""
    recall_in_window: float
    """Facts that are found when the question is a part of the context."""
    recall_outside: float
    """The same when the question comes after the context was compressed."""
    losses: tuple[float, ...]
    """Each token's [nat]."""


@dataclass(frozen=True)
class Prediction:
    """How a method predicted the text that follows."""

    losses: Tensor
    """Of each token [nat]."""
    bytes_ratio: float
    bytes_ratio_end: float
    kl: float
    top1: float


class Reader:
    """A passage that a model has read, and the full cache's predictions of what follows.

    Args:
        subject: the model.
        passage: what is read, and the continuation that is predicted.
        step: tokens that are fed at once.
    """

    def __init__(self, subject: Subject, passage: Passage, step: int) -> None:
        self._subject, self._passage, self._step = subject, passage, step
        self._reading = record(subject.model, torch.tensor(passage.context))
        whole = fork_layers(self._reading.cache)
        self._reference = self._follow(whole)
        self.truth = self._losses(self._reference)
        """Losses of the full cache [nat]."""

    def predict(self, method: Method, share: float | None) -> Prediction:
        """Let a method keep the passage, and predict what follows."""
        model, start = self._subject.model, len(self._reading.tokens)
        cache = method.prefill(model, self._reading, share)
        before = self._ratio(method.nbytes(cache), start)
        with method.reading(model, cache):
            found = self._follow(cache)
        after = self._ratio(method.nbytes(cache), start + len(found))
        release(cache)
        return Prediction(
            losses=self._losses(found), bytes_ratio=before, bytes_ratio_end=after,
            kl=_divergence(self._reference, found),
            top1=float((found.argmax(1) == self._reference.argmax(1)).float().mean()),
        )

    def _follow(self, cache: Any) -> Tensor:
        """Feed the text that follows a few tokens at a time; return logits (tokens, words)."""
        text, seen = self._passage.continuation, len(self._passage.context)
        return torch.cat([
            rows(self._subject.model, cache, text[first : first + self._step], seen + first)
            for first in range(0, len(text), self._step)
        ])

    def _losses(self, logits: Tensor) -> Tensor:
        targets = torch.tensor(self._passage.continuation[1:])
        return F.cross_entropy(logits[:-1], targets, reduction='none')

    def _ratio(self, nbytes: int, tokens: int) -> float:
        return self._subject.bytes_per_token * tokens / nbytes


class Examination:
    """Passages that a model has read, and every question asked about them.

    Args:
        subject: the model.
        reading: passage whose continuation is predicted.
        recall: passage with facts.
        inside: how many facts are also asked for within the context.
        step: tokens that are fed at once.
    """

    def __init__(
        self, subject: Subject, reading: Passage, recall: Passage, inside: int, step: int
    ) -> None:
        self._subject, self._needles = subject, recall.needles
        model = subject.model
        self._reader = Reader(subject, reading, step)
        self._recall = record(model, torch.tensor(recall.context))
        every = max(len(recall.needles) // max(inside, 1), 1)
        self._inside = [
            (needle, self._with_question(needle)) for needle in recall.needles[::every][:inside]
        ]

    def judge(self, method: Method, share: float | None) -> Quality:
        """Measure one method at one budget."""
        found, truth = self._reader.predict(method, share), self._reader.truth
        losses = found.losses
        return Quality(
            name=method.name, maker=method.maker, share=share, bytes_ratio=found.bytes_ratio,
            bytes_ratio_end=found.bytes_ratio_end,
            nll=float(losses.mean()), nll_rise=float(losses.mean() / truth.mean() - 1),
            nll_rise_error=float((losses - truth).std() / len(losses) ** 0.5 / truth.mean()),
            kl=found.kl, top1=found.top1,
            recall_in_window=self._asked_within(method, share),
            recall_outside=self._asked_later(method, share), losses=tuple(losses.tolist()),
        )

    def _asked_later(self, method: Method, share: float | None) -> float:
        cache = method.prefill(self._subject.model, self._recall, share)
        answers = [
            self._answers(method, method.fork(cache), len(self._recall.tokens), needle.question,
                          needle.answer)
            for needle in self._needles
        ]
        release(cache)
        return sum(answers) / len(answers)

    def _asked_within(self, method: Method, share: float | None) -> float:
        answers = []
        for needle, asked in self._inside:
            cache = method.prefill(self._subject.model, asked, share)
            answers.append(self._answers(
                method, cache, len(asked.tokens), needle.question[-1:], needle.answer
            ))
        return sum(answers) / len(answers)

    def _with_question(self, needle: Needle) -> Recording:
        """Read the passage with facts on to the last but one token of a question.

        The last one is fed to the compressed cache: what a model says to the last token of its
        context never comes from a cache.
        """
        question = torch.tensor(needle.question[:-1])
        return record(self._subject.model, question, self._recall)

    def _answers(
        self, method: Method, cache: Any, seen: int, question: list[int], answer: list[int]
    ) -> bool:
        """Say whether greedy decoding gives the answer; the cache is used up.

        It does if each token of the answer is the likeliest after those before it.
        """
        model = self._subject.model
        with method.reading(model, cache):
            logits = rows(model, cache, [*question, *answer], seen, keep=len(answer) + 1)
        release(cache)
        return logits[:-1].argmax(1).tolist() == answer


def _divergence(truth: Tensor, found: Tensor) -> float:
    return float(F.kl_div(
        found.log_softmax(1), truth.log_softmax(1), reduction='batchmean', log_target=True
    ))

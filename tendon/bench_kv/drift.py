# SPDX-License-Identifier: Apache-2.0
"""A conversation of many turns under one budget: what is left of the first turn at the end."""

from dataclasses import dataclass
from typing import Any

from tendon.bench_kv.contestants import find_method
from tendon.bench_kv.method import Method
from tendon.bench_kv.model_calls import release, rows
from tendon.bench_kv.passage import draw_passage, Needle
from tendon.bench_kv.recording import record
from tendon.bench_kv.size import Size
from tendon.bench_kv.subject import Subject
import torch
from torch.nn import functional as F

SHARE = 1 / 4
"""Of the bytes of the whole conversation."""
FIRST = 4
"""Turns that the first one is as long as."""
REFERENCE = 'DynamicCache'


@dataclass(frozen=True)
class Drift:
    """One method over the turns."""

    nll: tuple[float, ...]
    """Of each later turn [nat a token]."""
    recall_first_turn: float
    """Facts of the first turn that are found after the last."""
    bytes_ratio: float
    """Bytes of all keys and values at 16 bits over the method's, after the last turn."""
    positions_exact: bool
    """Whether the cache itself still knows how many tokens it has seen."""


@dataclass(frozen=True)
class Conversation:
    """What is said in each turn."""

    turns: tuple[torch.Tensor, ...]
    needles: tuple[Needle, ...]
    """Facts of the first turn."""

    @property
    def tokens(self) -> int:
        return sum(len(turn) for turn in self.turns)


def watch_drift(
    subject: Subject, size: Size, seed: int, names: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    """Let each method go through the conversation; the reference comes with them."""
    passage = draw_passage(
        subject.encode, FIRST * size.turn, size.turn * (size.turns - 1), size.needles, seed
    )
    later = torch.tensor(passage.continuation).split(size.turn)
    talk = Conversation((torch.tensor(passage.context), *later), passage.needles)
    with_tokenizer = subject.folder is not None
    found = {
        name: _go_through(subject, talk, find_method(name, with_tokenizer))
        for name in (REFERENCE, *names)
    }
    truth = found[REFERENCE].nll
    return {
        name: {
            'nll_rise': [round(a / b - 1, 4) for a, b in zip(drift.nll, truth, strict=True)],
            'recall_first_turn': drift.recall_first_turn,
            'bytes_ratio': round(drift.bytes_ratio, 2),
            'positions_exact': drift.positions_exact,
        }
        for name, drift in found.items()
    }


def _go_through(subject: Subject, talk: Conversation, method: Method) -> Drift:
    model = subject.model
    first = record(model, talk.turns[0])
    share = SHARE * talk.tokens / len(talk.turns[0]) if method.takes_share else None
    # A method of one prefill compresses the first turn and keeps what comes later as it is.
    cache = method.prefill(model, first, SHARE if method.maker == 'kvpress' else share)
    nll, seen = [], len(talk.turns[0])
    with method.reading(model, cache):
        for turn in talk.turns[1:]:
            logits = rows(model, cache, turn, seen)
            nll.append(float(F.cross_entropy(logits[:-1], turn[1:])))
            seen += len(turn)
    exact = cache.get_seq_length() == seen
    nbytes = method.nbytes(cache)
    recall = [_is_found(model, method, cache, seen, needle) for needle in talk.needles]
    release(cache)
    return Drift(
        tuple(nll), sum(recall) / len(recall), subject.bytes_per_token * seen / nbytes, exact
    )


def _is_found(model: Any, method: Method, cache: Any, seen: int, needle: Needle) -> bool:
    twin = method.fork(cache)
    with method.reading(model, twin):
        logits = rows(
            model, twin, [*needle.question, *needle.answer], seen, keep=len(needle.answer) + 1
        )
    release(twin)
    return bool(logits[:-1].argmax(1).tolist() == needle.answer)

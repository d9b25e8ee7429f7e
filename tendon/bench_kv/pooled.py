# SPDX-License-Identifier: Apache-2.0
"""Likelihood over several passages: one text says little about a method.

Every passage has text, facts and reference of its own. The rise is that of all tokens together;
its standard error is over passages, which are independent, and not over tokens, which are not.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tendon.bench_kv.contestants import find_method
from tendon.bench_kv.passage import draw_passage
from tendon.bench_kv.quality import Reader
from tendon.bench_kv.size import Size
from tendon.bench_kv.subject import Subject


@dataclass(frozen=True)
class Sample:
    """What one method did at one passage."""

    name: str
    seed: int
    """Of the passage."""
    nll: float
    """Of the text that follows [nat a token]."""
    truth: float
    """The full cache's [nat a token]."""
    bytes_ratio: float
    kl: float
    top1: float


def read_passage(
    subject: Subject, size: Size, seed: int, names: Sequence[str], share: float
) -> list[Sample]:
    """Let each method keep ``share`` of a passage and predict what follows."""
    drawn = draw_passage(subject.encode, size.context, size.following, size.needles, seed)
    reader = Reader(subject, drawn, size.step)
    found = []
    for name in names:
        prediction = reader.predict(find_method(name, subject.folder is not None), share)
        found.append(Sample(
            name, seed, float(prediction.losses.mean()), float(reader.truth.mean()),
            prediction.bytes_ratio, prediction.kl, prediction.top1,
        ))
    return found


def pool(samples: Iterable[Sample]) -> dict[str, dict[str, Any]]:
    """Return name -> rise of the likelihood with its standard error, and the other figures."""
    methods: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        methods[sample.name].append(sample)
    return {name: _pooled(found) for name, found in methods.items()}


def _pooled(found: Sequence[Sample]) -> dict[str, Any]:
    count, truth = len(found), sum(one.truth for one in found)
    rise = sum(one.nll for one in found) / truth - 1
    squares = sum((one.nll - (1 + rise) * one.truth) ** 2 for one in found)
    error = (count / (count - 1) * squares) ** 0.5 / truth if count > 1 else None
    return {
        'passages': count,
        'bytes_ratio': round(min(one.bytes_ratio for one in found), 3),
        'nll_rise': round(rise, 5),
        'nll_rise_error': None if error is None else round(error, 5),
        'nll_rise_each': [round(one.nll / one.truth - 1, 5) for one in found],
        'kl': round(sum(one.kl for one in found) / count, 5),
        'top1': round(sum(one.top1 for one in found) / count, 4),
    }

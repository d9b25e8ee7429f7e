# SPDX-License-Identifier: Apache-2.0
"""Time per token of every entry of the comparison, at one context."""

from collections.abc import Sequence
import copy
from typing import Any

from tendon.bench_kv.contestants import find_method
from tendon.bench_kv.ours import policy_at_16_bits
from tendon.bench_kv.presses import Press
from tendon.bench_kv.quality import Quality
from tendon.bench_kv.speed import fill, fill_ours, Layers, race, Racer, random_layers
from tendon.bench_kv.stock_caches import Quantized
from tendon.bench_kv.subject import Subject
from transformers import DynamicCache

MARKS_ONLY = 'KVzip'
"""Keeps all that it would drop: its time says nothing."""


def entry_times(
    subject: Subject, entries: Sequence[Quality], tokens: int, rounds: int
) -> dict[tuple[str, float | None], float]:
    """Return the median time of a decoding step of each entry [ms], by name and share."""
    layers = random_layers(subject.model, tokens)
    racers = {
        f'{entry.name}|{entry.share}': _racer(subject, layers, entry, tokens)
        for entry in entries if entry.name != MARKS_ONLY
    }
    found = race(subject.model, racers, tokens, rounds)
    return {
        (entry.name, entry.share): found[f'{entry.name}|{entry.share}']
        for entry in entries if entry.name != MARKS_ONLY
    }


def _racer(subject: Subject, layers: Layers, entry: Quality, tokens: int) -> Racer:
    if entry.maker == 'tendon':
        budget = None
        if entry.share is not None:
            budget = int(entry.share * tokens * subject.bytes_per_token)
        return fill_ours(
            subject.model, layers, policy_at_16_bits(entry.name), budget_bytes=budget
        )
    method = find_method(entry.name, with_tokenizer=False)
    kept = max(int(tokens / entry.bytes_ratio), 1)
    if isinstance(method, Quantized):
        return _quantized(subject.model, layers, method, tokens)
    if isinstance(method, Press) and method.quantized is not None:
        # What it keeps is as many tokens as weigh that much at 4 bits and their scales.
        return _quantized(subject.model, layers, method.quantized, min(kept * 7 // 2, tokens))
    short = [(key[:, :, :kept], value[:, :, :kept]) for key, value in layers]
    return fill(short, DynamicCache())


def _quantized(model: Any, layers: Layers, method: Quantized, tokens: int) -> Racer:
    # One layer is encoded for all: encoding takes long, and a step costs the same.
    cache = method.empty(model)
    key, value = layers[0]
    cache.layers[0].update(key[:, :, :tokens], value[:, :, :tokens])
    cache.layers = [copy.copy(cache.layers[0]) for _ in cache.layers]
    return Racer(cache)

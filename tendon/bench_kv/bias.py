# SPDX-License-Identifier: Apache-2.0
"""Keys that are mostly bias, as in Qwen2.5: does quantization still tell them apart?

Reference is the full cache of the same biased model.
"""

from tendon.bench_kv.contestants import find_method
from tendon.bench_kv.model_calls import release, rows
from tendon.bench_kv.passage import draw_passage
from tendon.bench_kv.recording import record
from tendon.bench_kv.size import Size
from tendon.bench_kv.stock_caches import fork_layers
from tendon.bench_kv.subject import biased, Subject
import torch

FOUR_BITS = ('kivi4', 'squat4')
"""Ours whose agreement is the figure of the bench."""


def agreement_with_bias(
    subject: Subject, size: Size, seed: int, names: tuple[str, ...]
) -> dict[str, float]:
    """Return how often each method calls the same token likeliest, over some texts.

    Changes the model.
    """
    biased_model = biased(subject)
    texts = [_agreement(biased_model, size, seed + text, names) for text in range(size.texts)]
    return {name: round(sum(one[name] for one in texts) / len(texts), 4) for name in names}


def _agreement(
    subject: Subject, size: Size, seed: int, names: tuple[str, ...]
) -> dict[str, float]:
    model = subject.model
    passage = draw_passage(subject.encode, size.recall, size.following, size.needles, seed)
    recording = record(model, torch.tensor(passage.context))
    text, seen = passage.continuation, len(passage.context)
    truth = rows(model, fork_layers(recording.cache), text, seen).argmax(1)
    found = {}
    for name in names:
        method = find_method(name, subject.folder is not None)
        cache = method.prefill(model, recording, None)
        with method.reading(model, cache):
            said = rows(model, cache, text, seen).argmax(1)
        release(cache)
        found[name] = float((said == truth).float().mean())
    return found

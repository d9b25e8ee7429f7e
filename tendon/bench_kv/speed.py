# SPDX-License-Identifier: Apache-2.0
"""Time per token at a context of any length, and what a method adds to a prefill.

Caches are filled with random numbers directly, so that no context need be computed; what a step
costs does not depend on them. Methods take turns, so that a busy moment hits all; medians count.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from statistics import median
import time
from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import CompressedCache
from cloud_backbone.kv_cache.hook import attach, detach
from cloud_backbone.kv_cache.kv_session import KVSession
from cloud_backbone.kv_cache.policy import find_policy, Policy
from tendon.bench_kv.contestants import find_method
from tendon.bench_kv.model_calls import release, rows
from tendon.bench_kv.recording import record, Recording
from tendon.bench_kv.subject import Subject
import torch
from torch import Tensor
from transformers import DynamicCache

Layers = Sequence[tuple[Tensor, Tensor]]
"""Keys and values of each layer (1, kv_heads, tokens, head_dim)."""


@dataclass(frozen=True)
class Racer:
    """A filled cache and how it is read."""

    cache: Any
    attached: bool = False

    def reading(self, model: Any) -> AbstractContextManager[None]:
        return _Attached(model) if self.attached else nullcontext()


class _Attached(AbstractContextManager[None]):
    def __init__(self, model: Any) -> None:
        self._model = model

    def __enter__(self) -> None:
        attach(self._model)

    def __exit__(self, *_: object) -> None:
        detach(self._model)


def random_layers(model: Any, tokens: int) -> Layers:
    """Draw keys and values for all layers of a model."""
    config = model.config
    shape = (1, config.num_key_value_heads, tokens, model.model.layers[0].self_attn.head_dim)
    return [
        (torch.randn(shape), torch.randn(shape)) for _ in range(config.num_hidden_layers)
    ]


def fill(layers: Layers, cache: Any) -> Racer:
    """Fill a cache of transformers."""
    for number, (key, value) in enumerate(layers):
        cache.update(key, value, number)
    return Racer(cache)


def fill_ours(
    model: Any, layers: Layers, policy: str | Policy, slots: int | None = None,
    budget_bytes: int | None = None,
) -> Racer:
    """Fill one of our caches; of the tokens it keeps what its budget allows."""
    policy = find_policy(policy) if isinstance(policy, str) else policy
    pool = BlockPool(8 << 30)
    session = KVSession(
        pool, policy, range(len(layers)), slots=slots, budget_bytes=budget_bytes
    )
    for number, (key, value) in enumerate(layers):
        row = session.row(number, key.shape[1], key.shape[3], key.dtype)
        session.take(number, key[0], value[0], row.columns.rows(key.shape[2]))
    session.commit()
    cache = CompressedCache(model.config, policy, pool=pool, sessions=[session])
    return Racer(cache, attached=True)


def race(
    model: Any, racers: Mapping[str, Racer], seen: int, rounds: int
) -> dict[str, float]:
    """Return the median time of a decoding step of each [ms]; the first round is a warm-up.

    The caches are used up.
    """
    times: dict[str, list[float]] = {name: [] for name in racers}
    for number in range(rounds + 1):
        for name, racer in racers.items():
            with racer.reading(model):
                start_s = time.perf_counter()
                rows(model, racer.cache, [number + 1], seen + number)
                times[name].append((time.perf_counter() - start_s) * 1e3)
    for racer in racers.values():
        release(racer.cache)
    return {name: median(values[1:]) for name, values in times.items()}


def decode_times(
    subject: Subject, tokens: int, slots: int, rounds: int, policies: Sequence[str]
) -> dict[str, float]:
    """Time a step with a full cache, with reserved pages, and with fixed slots [ms]."""
    model = subject.model
    layers = random_layers(model, tokens)
    # Room for the steps to come, at the width that the model computes in.
    reserved = 2 * subject.bytes_per_token * (tokens + 64) * 9 // 8
    racers = {
        'DynamicCache': fill(layers, DynamicCache()),
        'full reserved': fill_ours(model, layers, 'full', budget_bytes=reserved),
        **{name: fill_ours(model, layers, name, slots=slots) for name in policies},
    }
    return race(model, racers, tokens, rounds)


def prefill_times(
    subject: Subject, tokens: int, rounds: int, names: Sequence[str], share: float
) -> dict[str, float]:
    """Time the prefill of each method [ms]; nothing is replayed."""
    model = subject.model
    context = record(model, torch.arange(tokens) % 100)
    unread = replace(context, inputs=())
    methods = [find_method(name, with_tokenizer=False) for name in names]
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for method in methods:
            asked = share if method.takes_share else None
            times[method.name].append(_seconds(_prefill(method, model, unread, asked)) * 1e3)
    return {name: median(values) for name, values in times.items()}


def _prefill(
    method: Any, model: Any, recording: Recording, share: float | None
) -> Callable[[], Any]:
    return lambda: method.prefill(model, recording, share)


def _seconds(work: Callable[[], Any]) -> float:
    start_s = time.perf_counter()
    cache = work()
    elapsed_s = time.perf_counter() - start_s
    release(cache)
    return elapsed_s

# SPDX-License-Identifier: Apache-2.0
"""The policies of cloud_backbone.kv_cache, by name, as methods of the bench."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from cloud_backbone.kv_cache.compressed_cache import CompressedCache
from cloud_backbone.kv_cache.hook import attach, detach
from cloud_backbone.kv_cache.policy import find_policy, Policy
from cloud_backbone.kv_cache.rehearsal import rehearse
from cloud_backbone.kv_cache.replay import Replay
from tendon.bench_kv.model_calls import rows
from tendon.bench_kv.recording import Recording, replay
import torch
from transformers import AutoTokenizer

REQUEST = '\n\nRepeat the previous context exactly.\n\n'
"""What a model is asked before it reads a context again, in the words of KVzip."""


@dataclass(frozen=True)
class Ours:
    """One policy."""

    name: str
    maker: str = 'tendon'

    @property
    def takes_share(self) -> bool:
        return find_policy(self.name).scorer is not None

    def prefill(self, model: Any, recording: Recording, share: float | None) -> Any:
        budget = None if share is None else int(share * _bytes_at_16_bits(recording))
        cache = CompressedCache(model.config, policy_at_16_bits(self.name), budget_bytes=budget)
        cache.bench_config = model.config
        with self.reading(model, cache):
            if isinstance(cache.policy.scorer, Replay):
                _read_twice(model, recording, cache)
            else:
                replay(model, recording, cache, silent=False)
        return cache

    @contextmanager
    def reading(self, model: Any, cache: Any) -> Iterator[None]:
        attach(model)
        try:
            yield
        finally:
            detach(model)

    def fork(self, cache: Any) -> Any:
        return CompressedCache(
            cache.bench_config, cache.policy, pool=cache.pool,
            sessions=[session.fork() for session in cache.sessions],
        )

    def nbytes(self, cache: Any) -> int:
        # The lossless policy must store what the model computes: counted as others are.
        return int(cache.nbytes()) // (2 if cache.policy.lossless else 1)


def policy_at_16_bits(name: str) -> Policy:
    """Return a policy whose raw slots take 16 bits, as in a model that is served.

    The bench computes in single precision; what is not dropped is rounded to 16 bits here, which
    the caches of others are only counted as.
    """
    policy = find_policy(name)
    return policy if policy.lossless else replace(policy, raw_dtype=torch.float16)


def _read_twice(model: Any, recording: Recording, cache: CompressedCache) -> None:
    session, tokens = cache.begin(), recording.tokens.tolist()
    session.tentative = True
    replay(model, recording, cache, silent=False)
    rehearse(
        cache, tokens, lambda twin, again: rows(model, twin, again, len(tokens), keep=1),
        _request(model.config.name_or_path),
    )
    session.commit()
    session.tentative = False


@lru_cache
def _request(folder: str) -> tuple[int, ...]:
    """Return the tokens of ``REQUEST`` for the model of a folder; none for one without words."""
    if not folder:
        return ()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return tuple(tokenizer.encode(REQUEST, add_special_tokens=False))


def _bytes_at_16_bits(recording: Recording) -> int:
    layers = recording.cache.layers
    return sum(2 * (layer.keys.numel() + layer.values.numel()) for layer in layers)

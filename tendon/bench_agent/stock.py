# SPDX-License-Identifier: Apache-2.0
"""The two ways of transformers: all tokens anew at each turn, or one cache that is appended to."""

from collections.abc import Sequence
from typing import Any

from tendon.bench_agent.arm import Cost, Step, timed
from tendon.bench_agent.script import Tokens, Turn
from tendon.bench_kv.model_calls import rows
from transformers import DynamicCache


def prefill(model: Any, tokens: Sequence[int]) -> Any:
    """Return the logits (vocabulary,) after tokens that are computed with an empty cache."""
    return rows(model, DynamicCache(), tokens, 0, keep=1)[-1]


class Reprefill:
    """Nothing is kept: what most agents' loops do."""

    name, maker = 're-prefill', 'transformers'

    def __init__(self, model: Any) -> None:
        self._model = model

    def take(self, turn: Turn) -> Step:
        cost = Cost()
        with timed(cost):
            token = int(prefill(self._model, turn.prompt).argmax())
        return Step(cost, len(turn.prompt), token, 0)

    def restart(self) -> Cost:
        return Cost()

    def close(self) -> None:
        return None


class Dynamic:
    """A DynamicCache that is cropped to what the sequences have in common, then appended to."""

    name, maker = 'DynamicCache', 'transformers'

    def __init__(self, model: Any) -> None:
        self._model, self._cache, self._held = model, DynamicCache(), Tokens()

    def take(self, turn: Turn) -> Step:
        cost, prompt = Cost(), turn.prompt
        with timed(cost):
            # The last token is computed anyhow: somebody has to say what follows it.
            shared = min(common(self._held, prompt), len(prompt) - 1)
            crop(self._cache, shared)
            logits = rows(self._model, self._cache, prompt[shared:], shared, keep=1)
            token = int(logits[-1].argmax())
        rows(self._model, self._cache, turn.thought, len(prompt), keep=1)
        self._held = prompt + turn.thought
        return Step(cost, len(prompt) - shared, token, nbytes(self._cache))

    def restart(self) -> Cost:
        self.close()
        return Cost()

    def close(self) -> None:
        self._cache, self._held = DynamicCache(), ()


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """Count the tokens with which both begin."""
    length = 0
    for mine, its in zip(one, other, strict=False):
        if mine != its:
            break
        length += 1
    return length


def crop(cache: Any, tokens: int) -> None:
    """Keep the first tokens; the library's own call changed its meaning between versions."""
    for layer in cache.layers:
        layer.keys, layer.values = layer.keys[..., :tokens, :], layer.values[..., :tokens, :]


def nbytes(cache: Any) -> int:
    """Count the bytes of all keys and values [B]."""
    return sum(
        part.numel() * part.element_size()
        for layer in cache.layers for part in (layer.keys, layer.values)
    )

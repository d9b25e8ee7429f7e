# SPDX-License-Identifier: Apache-2.0
"""The eviction methods of kvpress, alone and with the quantized cache of transformers.

kvpress drops keys while a context is read and lets the cache forget how long that was; here the
positions are told to the model. Its layers may keep different numbers of tokens, which stock
attention masks cannot follow with several rows, hence the attention of this file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
import importlib
import importlib.util
import logging
from typing import Any

from tendon.bench_kv.recording import Recording, replay
from tendon.bench_kv.resident import resident_bytes
from tendon.bench_kv.stock_caches import fork_layers, missing_backends, Quantized
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import AttentionInterface, DynamicCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NAMES = ('SnapKV', 'PyramidKV', 'ExpectedAttention', 'TOVA')
TAIL = 'tendon_tail'
"""Attention where all that the cache holds comes before all that is new."""


@dataclass(frozen=True)
class Press:
    """One press of kvpress with its authors' settings."""

    name: str
    press: str
    """Name of the class without its ending."""
    quantized: Quantized | None = None
    maker: str = 'kvpress'
    takes_share: bool = True

    def prefill(self, model: Any, recording: Recording, share: float | None) -> Any:
        tokens = len(recording.tokens)
        kept = tokens if share is None else int(share / self._weight(model, recording) * tokens)
        press = make_press(self.press, kept, tokens)
        cache = DynamicCache() if self.quantized is None else self.quantized.empty(model)
        with press(model):
            replay(model, recording, cache, silent=True)
        return cache

    @contextmanager
    def reading(self, model: Any, cache: Any) -> Iterator[None]:
        usual = model.config._attn_implementation
        model.set_attn_implementation(TAIL)
        try:
            yield
        finally:
            model.set_attn_implementation(usual)

    def fork(self, cache: Any) -> Any:
        return fork_layers(cache)

    def nbytes(self, cache: Any) -> int:
        return resident_bytes(cache.layers)

    def _weight(self, model: Any, recording: Recording) -> float:
        """Return what a kept token weighs, of its weight at 16 bits."""
        if self.quantized is None:
            return 1.0
        layer = self.quantized.empty(model).layers[0]
        exact = recording.cache.layers[0]
        layer.update(exact.keys, exact.values)
        return resident_bytes([layer]) / resident_bytes([exact])


@dataclass(frozen=True)
class KVzip(Press):
    """KVzip as kvpress has it: it marks what would be dropped, and keeps it.

    The marks are made by reading the context again, several times as dear as the prefill; so the
    scores of each recording are remembered for further budgets. It needs a tokenizer.
    """

    _scores: dict[int, Tensor] = field(default_factory=dict)

    def prefill(self, model: Any, recording: Recording, share: float | None) -> Any:
        tokens = len(recording.tokens)
        kept = tokens if share is None else int(share * tokens)
        press = make_press(self.press, kept, tokens)
        cache = DynamicCache()
        known = self._scores.get(id(recording))
        if known is None:
            press.compress_post = _catch(press, self._scores, id(recording))
            with torch.no_grad(), press(model):
                replay(model, recording, cache, silent=True)
        else:
            for number, layer in enumerate(recording.cache.layers):
                cache.update(layer.keys, layer.values, number)
            press.score_val = known.clone()
            press.compress_post(model)
        cache.tendon_marks = [_take_marks(layer) for layer in model.model.layers]
        return cache

    @contextmanager
    def reading(self, model: Any, cache: Any) -> Iterator[None]:
        for layer, marks in zip(model.model.layers, cache.tendon_marks, strict=True):
            layer.self_attn.masked_key_indices = marks
        try:
            with super().reading(model, cache):
                yield
        finally:
            for layer in model.model.layers:
                layer.self_attn.masked_key_indices = None

    def nbytes(self, cache: Any) -> int:
        """Return the bytes that it would take if it dropped what it marks [B]."""
        layer = cache.layers[0]
        pair = resident_bytes([layer]) // (layer.keys.shape[1] * layer.keys.shape[2])
        marked = sum(len(marks[0]) for marks in cache.tendon_marks if marks is not None)
        return resident_bytes(cache.layers) - pair * marked


def make_press(name: str, kept: int, tokens: int) -> Any:
    """Return a press that keeps so many of so many tokens."""
    presses = _kvpress()
    logging.getLogger('kvpress').setLevel(logging.ERROR)
    # It rounds down: the half keeps the number exact.
    ratio = 0.0 if kept >= tokens else 1 - (max(kept, 1) + 0.5) / tokens
    return getattr(presses, f'{name}Press')(compression_ratio=max(ratio, 0.0))


def has_kvpress() -> bool:
    """Say whether kvpress is installed."""
    return importlib.util.find_spec('kvpress') is not None


def press_methods(with_tokenizer: bool) -> list[Press]:
    """Return the presses that work here."""
    if not has_kvpress():
        return []
    found = [Press(name, name) for name in NAMES]
    if 'quanto' not in missing_backends():
        found.append(Press('SnapKV+quanto4', 'SnapKV', Quantized('quanto4')))
    return [*found, KVzip('KVzip', 'KVzip')] if with_tokenizer else found


def _kvpress() -> Any:
    """Import kvpress and undo what that does to the attention functions of everybody.

    It wraps each so that marked keys are overwritten; here marked keys are masked instead.
    """
    usual = dict(ALL_ATTENTION_FUNCTIONS)
    module = importlib.import_module('kvpress')
    ALL_ATTENTION_FUNCTIONS.update(usual)
    return module


def _catch(press: Any, scores: dict[int, Tensor], key: int) -> Any:
    """Wrap the last step of KVzip, which forgets its scores, so that they are kept."""
    usual = press.compress_post

    def step(model: Any) -> None:
        scores[key] = press.score_val.clone()
        usual(model)

    return step


def _take_marks(layer: Any) -> tuple[Tensor, Tensor, Tensor] | None:
    marks = getattr(layer.self_attn, 'masked_key_indices', None)
    layer.self_attn.masked_key_indices = None
    return marks


def _tail_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, *_: Any,
    scaling: float | None = None, **__: Any,
) -> tuple[Tensor, None]:
    rows, slots = query.shape[2], key.shape[2]
    visible = None
    if rows > 1:
        visible = torch.ones(rows, slots, dtype=torch.bool).tril(slots - rows)
    marks = getattr(module, 'masked_key_indices', None)
    if marks is not None:
        by_head = torch.ones(*key.shape[:2], 1, slots, dtype=torch.bool)
        by_head[marks[0], marks[1], 0, marks[2]] = False
        by_head = by_head.repeat_interleave(query.shape[1] // key.shape[1], 1)
        visible = by_head if visible is None else by_head & visible
    output = F.scaled_dot_product_attention(
        query, key, value, visible, scale=scaling, enable_gqa=query.shape[1] > key.shape[1]
    )
    return output.transpose(1, 2), None


AttentionInterface.register(TAIL, _tail_attention)

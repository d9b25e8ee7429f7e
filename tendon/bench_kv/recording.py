# SPDX-License-Identifier: Apache-2.0
"""Computes a prefill once and lets every method see it.

While a context is read all methods attend to exact keys and values, so each layer gets the same
input whichever method fills the cache. A replay feeds the recorded inputs to the attention
modules and leaves out everything else: same hooks, same cache calls, a fraction of the time.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from tendon.bench_kv.model_calls import rows
import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.masking_utils import sdpa_mask

SILENT = 'tendon_silent'
"""Attention that computes nothing, for methods that never look at it."""


@dataclass(frozen=True)
class Recording:
    """A context that a model has read."""

    tokens: Tensor
    """(tokens,)"""
    inputs: tuple[Tensor, ...]
    """What each attention module got, one a layer (1, tokens, hidden). Empty: a replay computes
    the whole prefill, for timing it."""
    cache: Any
    """All keys and values, exact."""


def record(model: Any, tokens: Tensor, before: Recording | None = None) -> Recording:
    """Read a context, or read on from ``before``."""
    cache = DynamicCache()
    seen = 0
    if before is not None:
        seen = len(before.tokens)
        for number, layer in enumerate(before.cache.layers):
            cache.update(layer.keys, layer.values, number)
    with _listening(model) as heard:
        rows(model, cache, tokens, seen, keep=1)
    if before is not None:
        heard = [torch.cat([old, new], 1) for old, new in zip(before.inputs, heard, strict=True)]
        tokens = torch.cat([before.tokens, tokens])
    return Recording(tokens, tuple(heard), cache)


def replay(model: Any, recording: Recording, cache: Any, silent: bool) -> None:
    """Fill a cache as a prefill of the recorded context would.

    Args:
        model: the model that was recorded, with whatever hooks a method put into it.
        recording: what it read.
        cache: filled.
        silent: leave attention out too; for methods that look at inputs, keys and values only.
    """
    with _only_attention(model, recording, silent) if recording.inputs else nullcontext():
        rows(model, cache, recording.tokens, 0, keep=1)


@contextmanager
def _listening(model: Any) -> Iterator[list[Tensor]]:
    heard: list[Tensor] = []

    def hear(module: Any, args: Any, named: dict[str, Any]) -> None:
        heard.append(named['hidden_states'])

    hooks = [
        layer.self_attn.register_forward_pre_hook(hear, with_kwargs=True)
        for layer in model.model.layers
    ]
    try:
        yield heard
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _only_attention(model: Any, recording: Recording, silent: bool) -> Iterator[None]:
    layers = model.model.layers
    mixers = [layer.mlp for layer in layers]
    attention = model.config._attn_implementation
    hooks = []
    for layer, inputs in zip(layers, recording.inputs, strict=True):
        hooks.append(layer.self_attn.register_forward_pre_hook(_give(inputs), with_kwargs=True))
        layer.mlp = torch.nn.Identity()
    try:
        if silent:
            model.set_attn_implementation(SILENT)
        yield
    finally:
        model.set_attn_implementation(attention)
        for hook in hooks:
            hook.remove()
        for layer, mixer in zip(layers, mixers, strict=True):
            layer.mlp = mixer


def _give(inputs: Tensor) -> Any:
    def give(module: Any, args: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, {**named, 'hidden_states': inputs}

    return give


def _silence(
    module: Any, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any
) -> tuple[Tensor, None]:
    return torch.zeros_like(query).transpose(1, 2), None


AttentionInterface.register(SILENT, _silence)
AttentionMaskInterface.register(SILENT, sdpa_mask)

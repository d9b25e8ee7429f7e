# SPDX-License-Identifier: Apache-2.0
"""Makes a transformers model attend through the compressed cache, and undoes it.

Registers one attention function and one mask function by name; models that do not use the name,
and caches of other classes, are served as by the library's ``sdpa``. Works with every decoder of
the library that takes its attention by name.
"""

from __future__ import annotations

from typing import Any

from cloud_backbone.kv_cache.batch_attention import attend_batch
from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.kv_store import take_note
from cloud_backbone.kv_cache.model_biases import collect, forget
import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

NAME = 'tendon_kv'
"""Name of the attention implementation."""


def attach(model: Any) -> None:
    """Let the text decoder of a model attend through whatever CompressedCache it is given.

    Raises:
        CacheError: the model does not take its attention by name.
    """
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    _choose(model, NAME)
    if _text_config(model)._attn_implementation != NAME:
        raise CacheError(f'{type(model).__name__} does not take its attention by name')
    collect(model)


def detach(model: Any) -> None:
    """Let the model attend by the library's ``sdpa`` again."""
    _choose(model, 'sdpa')
    forget(model)


def attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor,
    attention_mask: Tensor | None, dropout: float = 0.0, scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attend as transformers asks: states (batch, heads, tokens, head_dim), mask or None.

    Returns:
        Output (batch, tokens, heads, head_dim); weights are never returned.
    """
    store = take_note(key)
    if store is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    output = attend_batch(
        store, module, query, key, value, attention_mask, scaling, kwargs.get('softcap')
    )
    return output, None


def _choose(model: Any, name: str) -> None:
    if model.config is _text_config(model):
        model.set_attn_implementation(name)
    else:
        model.set_attn_implementation({'text_config': name})


def _text_config(model: Any) -> Any:
    return model.config.get_text_config(decoder=True)

# SPDX-License-Identifier: Apache-2.0
"""How the bench calls a model, whatever version of transformers it comes from."""

from collections.abc import Sequence
import inspect
from typing import Any

import torch
from torch import Tensor


def cache_argument(model: Any) -> str:
    """Return what the model calls its cache; renamed in transformers 5.24."""
    names = inspect.signature(model.forward).parameters
    return 'cache' if 'cache' in names else 'past_key_values'


def rows(
    model: Any, cache: Any, tokens: Sequence[int] | Tensor, seen: int, keep: int = 0
) -> Tensor:
    """Feed tokens through a cache.

    Args:
        model: a causal language model.
        cache: what earlier tokens left.
        tokens: the new ones.
        seen: how many came before, evicted ones included. Said outright, since some caches count
            only what they kept.
        keep: logits of how many rows are computed; 0 is all.

    Returns:
        Logits (rows, vocabulary).
    """
    ids = torch.as_tensor(tokens).view(1, -1)
    positions = torch.arange(seen, seen + ids.shape[1])[None]
    with torch.no_grad():
        logits = model(
            ids, position_ids=positions, logits_to_keep=keep, use_cache=True,
            **{cache_argument(model): cache},
        ).logits
    return logits[0]


def release(cache: Any) -> None:
    """Give back what a cache holds, where it can; others go when nobody knows them any more."""
    close = getattr(cache, 'close', None)
    if close is not None:
        close()

# SPDX-License-Identifier: Apache-2.0
"""Random attention of the shape that a row of the cache shows its scorer."""

from cloud_backbone.kv_cache.scorer import Columns, Scorer
import torch
from torch import Tensor


def attention_rows(
    positions: Tensor, queries: Tensor, *, group: int = 2, seed: int = 0, sharpness: float = 2.0
) -> Tensor:
    """Return softmax rows over the visible slots (kv_heads, group, rows, slots).

    Args:
        positions: of the slots, -1 in dead ones (kv_heads, slots).
        queries: positions of the rows (rows,).
        group: query heads of one KV head.
        seed: of the logits.
        sharpness: deviation of the logits.
    """
    generator = torch.Generator().manual_seed(seed)
    heads, slots = positions.shape
    logits = torch.randn(heads, group, len(queries), slots, generator=generator) * sharpness
    place = positions[:, None, None]
    visible = (place >= 0) & (place <= queries[:, None])
    return logits.masked_fill(~visible, -torch.inf).softmax(-1).nan_to_num()


def prompt(heads: int, tokens: int, rows: int) -> tuple[Tensor, Tensor]:
    """Return positions (heads, tokens) of a prompt and its last rows (rows,)."""
    return torch.arange(tokens).expand(heads, tokens), torch.arange(tokens - rows, tokens)


def fresh(scorer: Scorer, positions: Tensor) -> Columns:
    """Return the columns of slots that nothing has looked at."""
    heads = len(positions) if scorer.per_head else 1
    shape = heads, positions.shape[1]
    return {name: torch.zeros(shape, dtype=kind) for name, kind in scorer.columns.items()}

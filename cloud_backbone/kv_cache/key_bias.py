# SPDX-License-Identifier: Apache-2.0
"""Keys without the bias of their projection, and its share of the logits.

A key of a model with a biased projection is k = R(p) (W x + b), where R(p) rotates by the position
p. In the Qwen2 family b is so large that few bits are spent on it alone. What is stored is
k - R(p) b; what the bias gives to the logits is exact, because R is known:

    q . R(p) b = sum_j cos_j(p) (x_j u_j + y_j v_j) + sin_j(p) (y_j u_j - x_j v_j)

where (x, y) and (u, v) are the pairs of q and b that turn by frequency j. The bracket is made once
per query, and each slot costs one dot product with [cos | sin] of its position; R(p) b is never
made for stored slots. Whatever b and R are, the two halves cancel: an error in them costs bits,
not truth.
"""

from __future__ import annotations

from cloud_backbone.kv_cache.rope_positions import RopePositions
from cloud_backbone.kv_cache.rotary_table import RotaryTable
import torch
from torch import Tensor


class KeyBias:
    """The key bias of one layer.

    Args:
        bias: (kv_heads, head_dim), copied.
        table: cos and sin of the model.
    """

    def __init__(self, bias: Tensor, table: RotaryTable) -> None:
        self._bias, self._table = bias.detach().float().clone(), table
        rotated = self._bias[:, : table.width]
        self._first, self._second = rotated[:, table.first], rotated[:, table.second]

    def remove(self, key: Tensor, spots: Tensor) -> Tensor:
        """Return keys (kv_heads, tokens, head_dim) without the bias, float32.

        Args:
            key: rotated keys, of any float type.
            spots: their rotary positions (axes or 1, tokens).
        """
        table = self._table
        cos, sin = table.rows(spots).chunk(2, 1)
        first, second = self._first[:, None], self._second[:, None]
        turned = self._bias[:, None].repeat(1, key.shape[1], 1)
        part = turned[..., : table.width]
        part[..., table.first] = first * cos - second * sin
        part[..., table.second] = second * cos + first * sin
        return key.float() - turned

    def scores(self, query: Tensor, positions: Tensor, rope: RopePositions) -> Tensor:
        """Return what the bias gives to unscaled logits (kv_heads, rows, slots), float32.

        Args:
            query: float32 (kv_heads, rows, head_dim).
            positions: logical ones of the slots (kv_heads, slots); of dead ones negative.
            rope: the rotary ones of the session.
        """
        folded, still = self._fold(query)
        tokens = positions.clamp(min=0)
        spots = rope.of(tokens.flatten()).unflatten(1, tokens.shape)
        scores = self._table.dots(folded, spots)
        return scores if still is None else scores + still

    def _fold(self, query: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the factors of [cos | sin] (kv_heads, rows, width), and what does not turn."""
        width = self._table.width
        turning = query[..., :width]
        x, y = turning[..., self._table.first], turning[..., self._table.second]
        u, v = self._first[:, None], self._second[:, None]
        folded = torch.cat([x * u + y * v, y * u - x * v], 2)
        if width == query.shape[2]:
            return folded, None
        return folded, query[..., width:] @ self._bias[:, width:, None]

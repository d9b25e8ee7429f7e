# SPDX-License-Identifier: Apache-2.0
"""Keys taken to other positions: R(p + D) = R(D) R(p), so that one turn by D is enough.

Channels (x, y) of one frequency w become

    x' = x cos(D w) - y sin(D w)        y' = y cos(D w) + x sin(D w)

with angles in double precision and, whatever attention factor the embedding has, of length one:
the factor is in the key already. With multi-axis positions (M-RoPE) D is added to every axis,
which is the same turn. Channels behind the rotated ones are left alone. Values do not turn.
"""

from __future__ import annotations

from torch import Tensor


class KeyRotation:
    """How the keys of one layer turn.

    Args:
        frequencies: angle per position of each pair (pairs,) [rad], float32.
        first: channels that are x.
        second: channels that are y.
    """

    def __init__(self, frequencies: Tensor, first: slice, second: slice) -> None:
        self.frequencies, self.first, self.second = frequencies, first, second

    def turn(self, key: Tensor, distance: int) -> Tensor:
        """Return keys (..., tokens, head_dim) as if they stood ``distance`` positions further."""
        if distance == 0:
            return key
        angles = self.frequencies.double() * distance
        cos, sin = angles.cos().float(), angles.sin().float()
        turned = key.float().clone()
        x, y = key[..., self.first].float(), key[..., self.second].float()
        turned[..., self.first] = x * cos - y * sin
        turned[..., self.second] = y * cos + x * sin
        return turned.to(key.dtype)

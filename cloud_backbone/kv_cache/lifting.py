# SPDX-License-Identifier: Apache-2.0
"""Keys and values taken out of a session and put back, elsewhere if need be.

Only rows that keep every token as it was computed can be lifted. Knows no model: how keys turn
when they move is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cloud_backbone.kv_cache.errors import EvictedError
from cloud_backbone.kv_cache.key_rotation import KeyRotation
from cloud_backbone.kv_cache.kv_session import KVSession
from torch import Tensor

Lifted = Mapping[int, tuple[Tensor, Tensor]]
"""Layer -> keys and values (kv_heads, tokens, head_dim), copies."""


def lift(session: KVSession, first: int, end: int) -> Lifted:
    """Return copies of the tokens of positions [first, end); the session is not changed.

    Raises:
        EvictedError: the policy drops or encodes tokens.
    """
    if not session.policy.lossless:
        raise EvictedError(
            f'policy {session.policy.name} does not keep tokens as they were computed: only those '
            'of policy full can be lifted'
        )
    lifted = dict[int, tuple[Tensor, Tensor]]()
    for layer, row in session.rows.items():
        key, value = row.open.in_order()
        lifted[layer] = key[:, first:end].clone(), value[:, first:end].clone()
    return lifted


def put(
    session: KVSession, lifted: Lifted, distance: int, rotation: Callable[[int], KeyRotation]
) -> None:
    """Append lifted tokens as they are, their keys turned.

    Args:
        session: of the model that they were lifted from.
        lifted: tokens of ``lift``.
        distance: how many positions further they stand than before.
        rotation: of a layer's keys.

    Raises:
        PoolFullError: there is no page left.
    """
    for layer, (key, value) in lifted.items():
        turned = rotation(layer).turn(key, distance) if distance else key
        session.take(layer, turned, value, {})

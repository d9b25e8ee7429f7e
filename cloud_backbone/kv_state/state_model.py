# SPDX-License-Identifier: Apache-2.0
"""What a state asks of a model: caches, positions, logits, and how keys turn.

Knows no particular model; ``transformers_model`` has the adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.key_rotation import KeyRotation
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.kv_state.segment import SegmentImage
from torch import Tensor
from transformers.cache_utils import Cache


class StateModel(Protocol):
    """A causal decoder. Keeps nothing of a session: no position, no random numbers."""

    fingerprint: str
    """Tells it from all other models, where calibrations are looked up."""
    image_token: int | None
    """Id of the tokens that hold the place of an image."""

    def new_cache(self, pool: BlockPool, policy: Policy, budget_bytes: int | None) -> Cache:
        """Return an empty cache of one sequence whose new tokens can be taken back."""

    def spots(self, tokens: Sequence[int], image: SegmentImage | None, first: int) -> Tensor:
        """Return rotary positions (axes, tokens), the first of them ``first``."""

    def forward(
        self, cache: Cache, tokens: Sequence[int], spots: Tensor, image: SegmentImage | None,
        predict: int,
    ) -> Tensor:
        """Append tokens to a cache; return what follows the last ones (predict, vocabulary).

        Args:
            cache: of ``new_cache``.
            tokens: at least one.
            spots: their rotary positions (axes, tokens).
            image: whose places are among the tokens, if any are.
            predict: after how many of the last tokens logits are wanted; float32.
        """

    def rotation(self, layer: int) -> KeyRotation:
        """Return how keys of a layer turn when they move.

        Raises:
            UnsupportedMove: they cannot move.
        """

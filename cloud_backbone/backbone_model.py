# SPDX-License-Identifier: Apache-2.0
"""A served model as the model of states: for edits that compute by themselves, one row at a time.

Knows the interfaces of ``model.backbone`` and ``kv_state.state_model``; knows no session.
"""

from __future__ import annotations

from collections.abc import Sequence

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.key_rotation import KeyRotation
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.kv_state.errors import UnsupportedMove
from cloud_backbone.kv_state.segment import SegmentImage
from cloud_backbone.model.backbone import Backbone, Chunk, Prompt, Scene
import torch
from torch import Tensor
from transformers.cache_utils import Cache


class BackboneModel:
    """A backbone whose tokens have one position each."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone, self.model = backbone, backbone.network
        self.image_token = backbone.image_token
        self.fingerprint = backbone.fingerprint

    def new_cache(self, pool: BlockPool, policy: Policy, budget_bytes: int | None) -> Cache:
        """Return an empty cache of one sequence whose new tokens can be taken back."""
        return self.backbone.new_cache(pool, policy, budget_bytes)

    def spots(self, tokens: Sequence[int], image: SegmentImage | None, first: int) -> Tensor:
        """Return rotary positions (1, tokens), the first of them ``first``."""
        return torch.arange(first, first + len(tokens))[None]

    def forward(
        self, cache: Cache, tokens: Sequence[int], spots: Tensor, image: SegmentImage | None,
        predict: int,
    ) -> Tensor:
        """Append tokens to a cache; return what follows the last ones (predict, vocabulary)."""
        scenes = None
        if image is not None and image.tensors is not None and self.image_token in tokens:
            scenes = [Scene(dict(image.tensors))]
        past = int(cache.get_seq_length())
        mask = None
        if past and len(tokens) > 1:
            mask = torch.ones(len(tokens), past + len(tokens), dtype=torch.bool).tril(past)
            mask = mask[None, None]
        chunk = Chunk(
            torch.tensor([list(tokens)]), spots[:1], mask, [Prompt(tuple(tokens), 0)], scenes,
            predict,
        )
        return self.backbone.forward(chunk, cache).logits[0, -predict:].float()

    def rotation(self, layer: int) -> KeyRotation:
        """Refuse: served sessions recompute what moves."""
        raise UnsupportedMove('keys of a served session do not move')

# SPDX-License-Identifier: Apache-2.0
"""A real model that leans towards some words, so that a random one writes what a test needs."""

from __future__ import annotations

from collections.abc import Sequence

from cloud_backbone.model.backbone import Chunk, Image, Prediction, Scene
from cloud_backbone.model.tendon_backbone import TendonBackbone
from transformers.cache_utils import Cache

LEANING = 50.0


class LeaningBackbone:
    """Adds a constant to the logits of the first token of each word; else the model itself."""

    def __init__(self, backbone: TendonBackbone, *words: str) -> None:
        self._backbone = backbone
        self._tokens = [backbone.language.codec.encode(word)[0] for word in words]
        self.language = backbone.language
        self.fingerprint = backbone.fingerprint
        self.image_size = backbone.image_size
        self.latent_size = backbone.latent_size
        self.can_batch = self.can_compress = True
        self.has_agent_words, self.image_token = backbone.has_agent_words, backbone.image_token
        self.network, self.processor = backbone.network, backbone.processor
        self.prompt, self.latent = backbone.prompt, backbone.latent
        self.new_cache = backbone.new_cache

    def see(self, images: Sequence[Image]) -> list[Scene]:
        """Encode images, without what a random vision head would claim to see in them."""
        return [Scene(scene.tensors) for scene in self._backbone.see(images)]

    def forward(self, chunk: Chunk, cache: Cache) -> Prediction:
        """Compute, then lean."""
        prediction = self._backbone.forward(chunk, cache)
        logits = prediction.logits.clone()
        logits[..., self._tokens] += LEANING
        return Prediction(logits, prediction.hidden)

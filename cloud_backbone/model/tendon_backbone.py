# SPDX-License-Identifier: Apache-2.0
"""The project's own model behind the interface of ``backbone``.

Knows how its sequences are laid out and that rows may be padded; knows no session.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cloud_backbone.act import SPELLED
from cloud_backbone.constrained_decoding import PlanLanguage
from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import tentative_cache
from cloud_backbone.kv_cache.hook import attach
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.model.backbone import Chunk, Image, Prediction, Prompt, Scene
from cloud_backbone.model.checkpoint_files import fingerprint, load_model, load_processor
from cloud_backbone.model.configuration import COLOURS, KINDS, PATCH_TOKENS
from cloud_backbone.model.dense_head import Candidates
from cloud_backbone.model.distilled_vlm import CACHE_NAME, TendonVlmForConditionalGeneration
from cloud_backbone.model.prompt import image_ids, instruction_ids, memory_parts
from cloud_backbone.model.text_codec import TokenizerCodec
from cloud_backbone.plan_vocabulary import Vocabulary
from cloud_backbone.sighting import Sighting
from cloud_backbone.task_memory import TaskMemory
import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast
from transformers.cache_utils import Cache


class TendonBackbone:
    """Distilled model, its tokenizer and its vocabulary."""

    can_batch = True
    can_compress = True

    def __init__(
        self,
        model: TendonVlmForConditionalGeneration,
        tokenizer: PreTrainedTokenizerFast,
        vocabulary: Vocabulary,
        digest: str,
    ) -> None:
        config: Any = model.config
        side = config.vision_config.image_size
        codec = TokenizerCodec(tokenizer)
        self.language = PlanLanguage(vocabulary, codec)
        self.has_agent_words = codec.symbols is not SPELLED
        self.fingerprint = digest
        self.image_size = (side, side)
        self.latent_size: int = config.latent_size
        self.image_token: int | None = config.image_token_id
        self.network: torch.nn.Module | None = model
        self.processor: Any = tokenizer
        self._model = model
        self._image_ids = image_ids(config)
        self._tokenizer = tokenizer
        attach(model)

    @classmethod
    def load(cls, path: Path, *, threads: int, device: str) -> TendonBackbone:
        """Read a checkpoint directory whose files are known to be there."""
        torch.set_num_threads(threads)
        model = load_model(path, device)
        return cls(model, load_processor(path), Vocabulary.load(path), fingerprint(path))

    def prompt(self, instruction: str, memory: TaskMemory | None = None) -> Prompt:
        """Return begin token, instruction, image; with a memory all of it between them."""
        if memory is None:
            parts = [('goal', instruction_ids(self._tokenizer, instruction)), ('scene', [])]
        else:
            vocabulary = self.language.vocabulary
            parts = memory_parts(self._tokenizer, vocabulary, instruction, memory)
        words = [token for _, tokens in parts for token in tokens]
        parts[-1] = ('scene', [*parts[-1][1], *self._image_ids])
        stable = len(words) + 1
        tokens = (*words, *self._image_ids)
        # Objects say where things are, and the end of the image gathers what the answer needs.
        sizes = tuple((name, len(part)) for name, part in parts)
        return Prompt(tokens, stable, parts=sizes, vital=(stable + PATCH_TOKENS, len(tokens)))

    @torch.inference_mode()
    def see(self, images: Sequence[Image]) -> list[Scene]:
        """Encode RGB images in one batch."""
        stacked = torch.from_numpy(np.stack(images)).to(self._model.device)
        pixels = stacked.permute(0, 3, 1, 2).float() / 255  # (batch, 3, height, width)
        seen = self._model.model.see(pixels)
        return [
            Scene({'image_features': row[None]}, sightings)
            for row, sightings in zip(seen.tokens, sightings_of(seen.candidates), strict=True)
        ]

    def new_cache(self, pool: BlockPool, policy: Policy, budget_bytes: int | None) -> Cache:
        """Return an empty cache."""
        return tentative_cache(self._model.config, pool, policy, budget_bytes)

    @torch.inference_mode()
    def forward(self, chunk: Chunk, cache: Cache) -> Prediction:
        """Run the decoder on one chunk."""
        device = self._model.device
        features = None
        if chunk.scenes is not None:
            features = torch.cat([scene.tensors['image_features'] for scene in chunk.scenes])
        output = self._model(
            input_ids=chunk.tokens.to(device),
            position_ids=chunk.positions.to(device),
            attention_mask=None if chunk.mask is None else chunk.mask.to(device),
            image_features=features,
            use_cache=True,
            logits_to_keep=chunk.predict,
            **{CACHE_NAME: cache},
        )
        return Prediction(output.logits.cpu(), output.last_hidden_state)

    @torch.inference_mode()
    def latent(self, hidden: Tensor) -> list[float]:
        """Return the latent of one hidden state (hidden,)."""
        values: list[float] = self._model.latent(hidden).float().tolist()
        return values


def sightings_of(found: Candidates) -> list[tuple[Sighting, ...]]:
    """Say in words what the candidates (batch, candidates) of some images are."""
    points = found.point.float().tolist()
    presence = torch.sigmoid(found.reading.presence.float()).tolist()
    kinds = torch.softmax(found.reading.kind.float(), -1).tolist()
    colours = torch.softmax(found.reading.colour.float(), -1).tolist()
    return [
        tuple(
            Sighting(
                (x, y), there, dict(zip(KINDS, kind, strict=True)),
                dict(zip(COLOURS, colour, strict=True)),
            )
            for (x, y), there, kind, colour in zip(*rows, strict=True)
        )
        for rows in zip(points, presence, kinds, colours, strict=True)
    ]

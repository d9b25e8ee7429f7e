# SPDX-License-Identifier: Apache-2.0
"""Models for sessions of segments, and what the library itself says to the same tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cloud_backbone.kv_state.segment import Segment, SegmentImage
from cloud_backbone.kv_state.transformers_model import TransformersModel
from cloud_backbone.kv_state.verifying import likeliest
from cloud_backbone.model.checkpoint import load_checkpoint
from cloud_backbone.model.distilled_vlm import CACHE_NAME
from cloud_backbone.model.prompt import image_ids
import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from tests.fakes.tiny_models import make_family, text

CHECKPOINT = Path(__file__).parents[2] / 'cloud_backbone' / 'checkpoints' / 'tabletop'
NOT_TEXT = ('input_ids', 'mm_token_type_ids', 'token_type_ids')


@dataclass(frozen=True)
class Subject:
    """A model, how an image looks in its tokens, and the library's own use of it."""

    name: str
    model: TransformersModel
    places: tuple[int, ...]
    """Tokens of a scene that show its image; none for a model without eyes."""
    seeds: tuple[dict[str, Tensor], ...]
    """Inputs of the images that it can be shown."""
    first_word: int = 0
    """Added to the tokens of random text, so that none stands for an image."""

    def words(self, count: int, seed: int) -> list[int]:
        """Return random text."""
        return (text(count, seed)[0] + self.first_word).tolist()

    def scene(self, which: int) -> tuple[list[int], SegmentImage | None]:
        """Return tokens and image of one scene or another."""
        tokens = [*self.words(4, 100 + which), *self.places, *self.words(3, 200 + which)]
        if not self.places:
            return tokens, None
        return tokens, SegmentImage(f'{which:064x}', self.seeds[which % len(self.seeds)])

    def prefill(self, segments: tuple[Segment, ...]) -> tuple[Tensor, DynamicCache]:
        """Return what follows the last token, and the library's cache of all of them."""
        ids = [token for segment in segments for token in segment.tokens]
        inputs: dict[str, Any] = {'input_ids': torch.tensor([ids])}
        for segment in segments:
            if segment.image is not None:
                inputs |= dict(segment.image.tensors or {})
        if 'image_grid_thw' in inputs and CACHE_NAME == 'cache':
            inputs['mm_token_type_ids'] = (inputs['input_ids'] == self.model.image_token).int()
        return self._step(DynamicCache(config=self.model.model.config), inputs)

    def greedy(self, segments: tuple[Segment, ...], count: int) -> list[int]:
        """Return the likeliest next tokens, by the library alone."""
        logits, held = self.prefill(segments)
        written = []
        for _ in range(count):
            written.append(likeliest(logits, self.model.image_token))
            logits, _ = self._step(held, {'input_ids': torch.tensor([written[-1:]])})
        return written

    def _step(self, held: DynamicCache, inputs: dict[str, Any]) -> tuple[Tensor, DynamicCache]:
        with torch.no_grad():
            output = self.model.model(**{CACHE_NAME: held}, use_cache=True, **inputs)
        return output.logits[0, -1].float(), held


def subject_names() -> list[str]:
    """Return the models that every exact edit is tried on."""
    return ['llama', 'gemma3', 'qwen-image', 'checkpoint']


@cache
def make_subject(name: str) -> Subject:
    """Return a model; always the same one."""
    if name == 'checkpoint':
        return _checkpoint()
    family = make_family(name)
    places = tuple(family.start['input_ids'][0].tolist()) if family.start else ()
    shown = {key: value for key, value in family.start.items() if key not in NOT_TEXT}
    other = {key: value.flip(0, -1) if value.is_floating_point() else value
             for key, value in shown.items()}
    return Subject(name, TransformersModel(family.model, name), places, (shown, other))


def _checkpoint() -> Subject:
    model, _ = load_checkpoint(CHECKPOINT)
    side = model.config.vision_config.image_size
    pixels = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(3))
    seeds = tuple({'pixel_values': one[None]} for one in pixels)
    places = tuple(image_ids(model.config))
    return Subject('checkpoint', TransformersModel(model, 'checkpoint'), places, seeds, 300)

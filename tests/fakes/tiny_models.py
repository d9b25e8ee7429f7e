# SPDX-License-Identifier: Apache-2.0
"""Tiny random models of every decoder family, and what to feed them; made in memory in a moment.

Weights are larger than a fresh model's, so that attention looks at few tokens: dropping the wrong
one shows in the logits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from cloud_backbone.model.configuration import TendonVlmConfig
from cloud_backbone.model.distilled_vlm import CACHE_NAME, TendonVlmForConditionalGeneration
import torch
from torch import Tensor
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    LlamaConfig,
    LlamaForCausalLM,
    PaliGemmaConfig,
    PaliGemmaForConditionalGeneration,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
)

WORDS = 60
"""Tokens of text; those behind them stand for images."""
KEY_BIAS = 3.0
"""Deviation of the bias of the keys, where the family has one: the Qwen2 family's is large."""
IMAGE, VIDEO, VISION_START, VISION_END = 60, 61, 62, 63
SPECIAL = {'bos_token_id': 0, 'eos_token_id': 1, 'pad_token_id': 0}
TEXT = {
    'vocab_size': 64, 'hidden_size': 64, 'intermediate_size': 48, 'num_hidden_layers': 2,
    'num_attention_heads': 4, 'num_key_value_heads': 2, 'head_dim': 16,
    'max_position_embeddings': 1024, **SPECIAL,
}  # fmt: skip
VISION = {
    'hidden_size': 32, 'intermediate_size': 48, 'num_hidden_layers': 1, 'num_attention_heads': 2,
}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """A tiny model and how its first turn begins."""

    name: str
    model: Any
    start: dict[str, Tensor]
    """Inputs in front of the first turn: an image in its place; empty for text alone."""

    def __call__(self, cache: Any, model: Any = None, **inputs: Any) -> Tensor:
        """Return the logits (batch, tokens, vocabulary) of one step."""
        with torch.no_grad():
            step = (model or self.model)(**{CACHE_NAME: cache}, use_cache=True, **inputs)
        logits: Tensor = step.logits
        return logits

    def opening(self, tokens: int, seed: int = 0) -> dict[str, Any]:
        """Return the inputs of a first turn: the image, if there is one, and random text."""
        words = text(tokens, seed)
        if not self.start:
            return {'input_ids': words}
        return {name: self._longer(name, given, words) for name, given in self.start.items()}

    def _longer(self, name: str, given: Tensor, words: Tensor) -> Tensor:
        if name == 'input_ids':
            return torch.cat([given, words], 1)
        if name in ('token_type_ids', 'mm_token_type_ids'):
            return torch.cat([given, torch.zeros_like(words)], 1)
        return given


def text(tokens: int, seed: int = 0) -> Tensor:
    """Return random words (1, tokens)."""
    return torch.randint(2, WORDS, (1, tokens), generator=torch.Generator().manual_seed(seed))


def family_names() -> list[str]:
    """Return all families; ``qwen-image`` is ``qwen`` with an image before the text."""
    return list(_MAKERS)


@cache
def make_family(name: str) -> Family:
    """Return a family; always the same model, so do not change it."""
    torch.manual_seed(0)
    model, start = _MAKERS[name]()
    generator = torch.Generator().manual_seed(1)
    for part, parameter in model.named_parameters():
        if parameter.dim() > 1:
            spread = 1.4 / parameter[0].numel() ** 0.5
            parameter.data.normal_(0, spread, generator=generator)
        elif part.endswith('k_proj.bias'):
            parameter.data.normal_(0, KEY_BIAS, generator=generator)
    return Family(name, model.eval(), start)


def _llama() -> tuple[Any, dict[str, Tensor]]:
    return LlamaForCausalLM(LlamaConfig(**{**TEXT, 'num_hidden_layers': 3})), {}


def _gemma3() -> tuple[Any, dict[str, Tensor]]:
    layers = ['sliding_attention', 'full_attention', 'sliding_attention', 'full_attention']
    shape = {**TEXT, 'num_hidden_layers': 4, 'query_pre_attn_scalar': 16}
    return Gemma3ForCausalLM(Gemma3TextConfig(
        **shape, sliding_window=16, layer_types=layers,
    )), {}


def _tendon() -> tuple[Any, dict[str, Tensor]]:
    config = TendonVlmConfig(
        vision_config={'image_size': 64, 'widths': (8, 8, 16, 64), 'depth': 1},
        text_config={**TEXT, 'vocab_size': 160}, object_tokens=4, image_token_id=IMAGE,
    )
    model = TendonVlmForConditionalGeneration(config)
    pixels = _pixels(1, 3, 64, 64)
    with torch.no_grad():
        places = model.get_image_features(pixels).shape[1]
    return model, {'input_ids': _places(places), 'pixel_values': pixels}


def _idefics3() -> tuple[Any, dict[str, Tensor]]:
    config = Idefics3Config(
        text_config={'model_type': 'llama', **TEXT}, image_token_id=IMAGE, scale_factor=2,
        vision_config={**VISION, 'image_size': 32, 'patch_size': 8}, pad_token_id=0,
    )
    start = {'input_ids': _places(4), 'pixel_values': _pixels(1, 1, 3, 32, 32)}
    return Idefics3ForConditionalGeneration(config), start


def _smolvlm() -> tuple[Any, dict[str, Tensor]]:
    config = SmolVLMConfig(
        text_config={'model_type': 'llama', **TEXT}, image_token_id=IMAGE, scale_factor=2,
        vision_config={**VISION, 'image_size': 32, 'patch_size': 8}, pad_token_id=0,
    )
    start = {'input_ids': _places(4), 'pixel_values': _pixels(1, 1, 3, 32, 32)}
    return SmolVLMForConditionalGeneration(config), start


def _paligemma() -> tuple[Any, dict[str, Tensor]]:
    config = PaliGemmaConfig(
        text_config={'model_type': 'gemma', **TEXT}, image_token_index=IMAGE, projection_dim=64,
        vision_config={**VISION, 'model_type': 'siglip_vision_model', 'image_size': 28,
                       'patch_size': 14, 'projection_dim': 64},
    )
    ids = _places(4)
    start = {
        'input_ids': ids, 'pixel_values': _pixels(1, 3, 28, 28),
        'token_type_ids': torch.zeros_like(ids),
    }
    return PaliGemmaForConditionalGeneration(config), start


def _qwen() -> tuple[Any, dict[str, Tensor]]:
    rope = {'rope_type': 'default', 'rope_theta': 1e4, 'mrope_section': [2, 3, 3]}
    config = Qwen2_5_VLConfig(
        text_config={**TEXT, 'rope_parameters': rope},
        vision_config={
            'depth': 1, 'hidden_size': 32, 'intermediate_size': 48, 'num_heads': 2,
            'out_hidden_size': 64, 'fullatt_block_indexes': [0], 'window_size': 56,
        },
        image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=VISION_START,
        vision_end_token_id=VISION_END,
    )  # fmt: skip
    return Qwen2_5_VLForConditionalGeneration(config), {}


def _qwen_image() -> tuple[Any, dict[str, Tensor]]:
    model, _ = _qwen()
    ids = torch.tensor([[VISION_START, IMAGE, IMAGE, IMAGE, IMAGE, VISION_END]])
    start = {
        'input_ids': ids, 'pixel_values': _pixels(16, 3 * 2 * 14 * 14),
        'image_grid_thw': torch.tensor([[1, 4, 4]]),
    }
    if CACHE_NAME == 'cache':  # older versions find the images by themselves
        start['mm_token_type_ids'] = (ids == IMAGE).int()
    return model, start


def _places(tokens: int) -> Tensor:
    return torch.full((1, tokens), IMAGE)


def _pixels(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(2))


_MAKERS: dict[str, Callable[[], tuple[Any, dict[str, Tensor]]]] = {
    'llama': _llama, 'gemma3': _gemma3, 'tendon': _tendon, 'idefics3': _idefics3,
    'smolvlm': _smolvlm, 'paligemma': _paligemma, 'qwen': _qwen, 'qwen-image': _qwen_image,
}  # fmt: skip

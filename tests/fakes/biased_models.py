# SPDX-License-Identifier: Apache-2.0
"""Tiny models whose key projections have a large bias, as those of the Qwen2 family do."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import torch
from torch import Tensor
from transformers import (
    GlmConfig,
    GlmForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PhiConfig,
    PhiForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from tests.fakes.tiny_models import Family, make_family, TEXT

YARN = {
    'rope_type': 'yarn', 'rope_theta': 1e4, 'factor': 4.0,
    'original_max_position_embeddings': 256,
}  # fmt: skip
NAMES = ('qwen2', 'qwen2-yarn', 'llama', 'phi', 'glm', 'qwen', 'qwen-image')
"""Phi turns half of a head's channels, GLM neighbours; ``qwen`` has M-RoPE, also without image."""
WORDS = 32
"""Vocabulary of the recaller."""


def make_biased(name: str, size: float = 20.0) -> Family:
    """Return a model of its own whose first and last layer have a bias of this size a channel."""
    family = copy.deepcopy(_model(name))
    generator = torch.Generator().manual_seed(3)
    layers = key_projections(family.model)
    for projection in (layers[0], layers[-1]):
        projection.bias.data.normal_(0, size, generator=generator)
    return family


def key_projections(model: Any) -> list[Any]:
    """Return the key projections of the text decoder, layer by layer."""
    decoder = next(part for part in model.modules() if hasattr(part, 'rotary_emb'))
    return [layer.self_attn.k_proj for layer in decoder.layers]


@cache
def _model(name: str) -> Family:
    if name.startswith('qwen') and not name.startswith('qwen2'):
        return make_family(name)
    shape: dict[str, Any] = {**TEXT, 'attention_bias': True}
    if name == 'llama':
        model: Any = LlamaForCausalLM(LlamaConfig(**shape))
    elif name == 'phi':
        model = PhiForCausalLM(PhiConfig(**{**TEXT, 'partial_rotary_factor': 0.5}))
    elif name == 'glm':
        model = GlmForCausalLM(GlmConfig(**shape, partial_rotary_factor=0.5))
    else:
        rope = YARN if name == 'qwen2-yarn' else {'rope_type': 'default', 'rope_theta': 1e4}
        model = Qwen2ForCausalLM(Qwen2Config(**{**TEXT, 'rope_parameters': rope}))
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            spread = 2 / parameter[0].numel() ** 0.5
            parameter.data.normal_(0, spread, generator=generator)
    return Family(name, model.eval(), {})


def make_recaller(size: float, seed: int) -> Any:
    """Return a Qwen2 whose key bias has norm ``size`` and whose answers are sure.

    Token by token it looks, with each of its two layers, at one place of the past, which bias and
    content choose; it answers with the token at the place that the second place had looked at.
    Every word has a channel of its own in values and logits: what changes an answer is a look at
    a wrong place.
    """
    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(Qwen2Config(
        vocab_size=WORDS, hidden_size=128, intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False,
        bos_token_id=0, eos_token_id=1,
    ))  # fmt: skip
    code = torch.zeros(WORDS, 128)
    code[:, :WORDS] = _turn() * 128**0.5
    model.model.embed_tokens.weight.data = code.clone()
    for index, layer in enumerate(model.model.layers):
        code = _make_layer(layer, index, size, code)
    model.lm_head.weight.data = code
    return model.eval()


def _make_layer(layer: Any, index: int, size: float, code: Tensor) -> Tensor:
    """Let a layer read words where the last one wrote them; return what it makes of each."""
    attention, source, target = layer.self_attn, 64 * index, 64 - 32 * index
    layer.mlp.down_proj.weight.data.zero_()
    for projection in (attention.q_proj, attention.k_proj):
        projection.weight.data.normal_(0, 128**-0.5)
        projection.weight.data[:, WORDS:] = 0
    bias = attention.k_proj.bias.data.normal_()
    bias *= size / bias.norm()
    for projection in (attention.v_proj, attention.o_proj):
        projection.weight.data.zero_()
    attention.v_proj.weight.data[:WORDS, source : source + WORDS] = _turn()
    attention.o_proj.weight.data[target : target + WORDS, :WORDS] = _turn()
    value = code @ attention.v_proj.weight.data[:WORDS].T
    return value @ attention.o_proj.weight.data[:, :WORDS].T


def _turn() -> Tensor:
    return torch.linalg.qr(torch.randn(WORDS, WORDS))[0]

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.policy import find_policy
from cloud_backbone.kv_state.errors import UnsupportedMove
from cloud_backbone.kv_state.transformers_model import TransformersModel
import pytest
import torch
from torch import Tensor
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PhiConfig,
    PhiForCausalLM,
)

from tests.fakes.tiny_models import make_family, text

SHAPE: dict[str, Any] = {
    'vocab_size': 64, 'hidden_size': 64, 'intermediate_size': 48, 'num_hidden_layers': 2,
    'num_attention_heads': 4, 'num_key_value_heads': 2, 'pad_token_id': 0, 'bos_token_id': 0,
    'eos_token_id': 1,
}  # fmt: skip


def make(kind: str) -> Any:
    """Return a tiny model whose keys turn in some way of their own."""
    torch.manual_seed(0)
    if kind == 'partial':
        return PhiForCausalLM(PhiConfig(**SHAPE, partial_rotary_factor=0.5))
    if kind == 'neighbours':
        return CohereForCausalLM(CohereConfig(**SHAPE))
    if kind == 'two thetas':
        return Gemma3ForCausalLM(Gemma3TextConfig(
            **SHAPE, head_dim=16, sliding_window=64, query_pre_attn_scalar=16,
            layer_types=['sliding_attention', 'full_attention'],
        ))
    rope = {'rope_type': 'yarn', 'factor': 4.0, 'rope_theta': 1e4,
            'original_max_position_embeddings': 64}
    if kind == 'dynamic':
        rope = {'rope_type': 'dynamic', 'factor': 4.0, 'rope_theta': 1e4}
    parameters = {} if kind == 'plain' else {'rope_parameters': rope}
    return LlamaForCausalLM(LlamaConfig(**SHAPE, **parameters))


def keys_of(model: TransformersModel, spots: Tensor, tokens: list[int]) -> list[Tensor]:
    """Return the keys (kv_heads, tokens, head_dim) of every layer."""
    cache = model.new_cache(BlockPool(1 << 26), find_policy('full'), None)
    model.forward(cache, tokens, spots, None, 1)
    keys = []
    for index, layer in enumerate(cache.layers):
        session = cache.sessions[0]
        keys.append(session.rows[index].open.in_order()[0].clone() if index in session.rows
                    else layer.keys[0])
    return keys


@pytest.mark.parametrize('distance', [1, 37, 500, -20])
@pytest.mark.parametrize('kind', ['plain', 'partial', 'neighbours', 'two thetas', 'yarn'])
def test_as_the_model_rotates(kind: str, distance: int) -> None:
    """Turned keys are those that the model gives to the same tokens further on."""
    model = TransformersModel(make(kind).eval())
    tokens, here = text(12)[0].tolist(), torch.arange(20, 32)[None]
    pairs = zip(
        keys_of(model, here, tokens), keys_of(model, here + distance, tokens), strict=True
    )
    for layer, (key, there) in enumerate(pairs):
        torch.testing.assert_close(
            model.rotation(layer).turn(key, distance), there, atol=1e-4, rtol=1e-3
        )


def test_all_axes() -> None:
    """With three axes one turn does for all of them, images included."""
    model = TransformersModel(make_family('qwen-image').model)
    tokens = text(6)[0].tolist()
    spots = torch.tensor([[3, 4, 5, 5, 5, 8], [3, 4, 5, 6, 7, 8], [3, 4, 9, 6, 5, 8]])
    pairs = zip(
        keys_of(model, spots, tokens), keys_of(model, spots + 37, tokens), strict=True
    )
    for layer, (key, there) in enumerate(pairs):
        torch.testing.assert_close(
            model.rotation(layer).turn(key, 37), there, atol=1e-3, rtol=1e-3
        )


def test_many_turns() -> None:
    """A hundred turns there and back leave a key where it was."""
    rotation = TransformersModel(make('yarn').eval()).rotation(0)
    key = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))
    turned = key
    for _ in range(50):
        turned = rotation.turn(rotation.turn(turned, 31), -31)
    torch.testing.assert_close(turned, key, atol=1e-4, rtol=1e-4)
    assert rotation.turn(key, 0) is key


def test_refused() -> None:
    """Where the angle depends on the length of the sequence, nothing turns."""
    with pytest.raises(UnsupportedMove, match='dynamic.*RECOMPUTE'):
        TransformersModel(make('dynamic').eval()).rotation(0)

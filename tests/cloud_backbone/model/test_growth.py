# SPDX-License-Identifier: Apache-2.0
import copy

from cloud_backbone.model.growth import grow
from cloud_backbone.model.prompt import prompt_ids
import pytest
import torch

from tests.cloud_backbone.model.tiny_model import tiny_model, tiny_tokenizer


@torch.no_grad()
def test_a_grown_model_answers_the_same() -> None:
    """Twice the layers, the same logits."""
    small = tiny_model()
    config = copy.deepcopy(small.config)
    config.text_config.num_hidden_layers = 4
    big = grow(small, config, seed=1).eval()
    ids = torch.tensor([prompt_ids(tiny_tokenizer(), config, 'lift the red cube')])
    pixels = torch.rand(1, 3, 128, 128)
    one = small(input_ids=ids, pixel_values=pixels).logits
    assert torch.allclose(one, big(input_ids=ids, pixel_values=pixels).logits, atol=1e-4)


def test_only_multiples_of_the_depth_can_grow() -> None:
    """A depth that is no multiple is refused with both depths."""
    small = tiny_model()
    config = copy.deepcopy(small.config)
    config.text_config.num_hidden_layers = 3
    with pytest.raises(ValueError, match='2 layers.*3 of width'):
        grow(small, config, seed=1)

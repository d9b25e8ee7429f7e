# SPDX-License-Identifier: Apache-2.0
from cloud_backbone.distillation.grounding_loss import HeadTap
import torch

from tests.cloud_backbone.model.tiny_model import tiny_model


@torch.no_grad()
def test_the_tap_sees_what_the_head_does() -> None:
    """Recomputed attention equals that of the library's own layer."""
    decoder = tiny_model().model.language_model
    decoder.set_attn_implementation('eager')
    vectors = torch.randn(2, 9, 256, generator=torch.Generator().manual_seed(0))
    with HeadTap(decoder) as tap:
        output = decoder(inputs_embeds=vectors, use_cache=False, output_attentions=True)
    wanted = output.attentions[1][:, 3]  # (batch, tokens, tokens) of head 3
    row, position = torch.tensor([0, 1, 1]), torch.tensor([8, 0, 4])
    assert torch.allclose(tap.attend(3, row, position), wanted[row, position], atol=1e-5)


@torch.no_grad()
def test_the_tap_lets_go() -> None:
    """After the block the decoder has no hook left."""
    decoder = tiny_model().model.language_model
    with HeadTap(decoder) as tap:
        assert tap.attention.q_proj._forward_hooks
    assert not tap.attention.q_proj._forward_hooks

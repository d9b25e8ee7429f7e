# SPDX-License-Identifier: Apache-2.0
"""Makes a model larger without changing what it computes: new layers begin as nothing.

Chen, Goodfellow and Shlens, "Net2Net: Accelerating Learning via Knowledge Transfer",
arXiv:1511.05641. Changed: in a residual network a layer whose two output projections are zero is
the identity, so no weights have to be solved for. A teacher starts where its student stands.
"""

from __future__ import annotations

import copy

from cloud_backbone.model.configuration import TendonVlmConfig
from cloud_backbone.model.distilled_vlm import TendonVlmForConditionalGeneration
from cloud_backbone.model.start_values import new_model
import torch


@torch.no_grad()
def grow(
    small: TendonVlmForConditionalGeneration, config: TendonVlmConfig, seed: int
) -> TendonVlmForConditionalGeneration:
    """Return a deeper model of the same width that answers like `small`.

    Raises:
        ValueError: the depth is no multiple of the small one, or the width differs.
    """
    depth, wanted = small.config.text_config, config.text_config
    times, rest = divmod(wanted.num_hidden_layers, depth.num_hidden_layers)
    if rest or times < 1 or wanted.hidden_size != depth.hidden_size:
        raise ValueError(
            f'cannot grow {depth.num_hidden_layers} layers of width {depth.hidden_size} to '
            f'{wanted.num_hidden_layers} of width {wanted.hidden_size}; the width must stay and '
            f'the depth be a multiple'
        )
    model = new_model(config, seed)
    old, new = small.model.language_model.layers, model.model.language_model.layers
    layers = {name for name in small.state_dict() if '.layers.' in name}
    model.load_state_dict(
        {k: v for k, v in small.state_dict().items() if k not in layers}, strict=False
    )
    for index, layer in enumerate(new):
        if index % times == 0:
            layer.load_state_dict(old[index // times].state_dict())
        else:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    return model


@torch.no_grad()
def add_words(
    model: TendonVlmForConditionalGeneration, words: int, seed: int
) -> TendonVlmForConditionalGeneration:
    """Return a model that knows `words` tokens; the first ones are those that it knew."""
    config = copy.deepcopy(model.config)
    config.text_config.vocab_size = words
    # A loaded part says in which precision; the file of a whole model says it once.
    config.text_config.dtype = config.vision_config.dtype = None
    grown = new_model(config, seed)
    fresh = grown.state_dict()
    for name, old in model.state_dict().items():
        known = fresh[name] if fresh[name].shape == old.shape else fresh[name][: len(old)]
        known.copy_(old)
    return grown

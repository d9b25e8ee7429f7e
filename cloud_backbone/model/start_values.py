# SPDX-License-Identifier: Apache-2.0
"""Start values of a new model: words apart, locations in order, output head like the input.

Training starts from here; a checkpoint overrides all of it.
"""

from __future__ import annotations

from cloud_backbone.model.configuration import TendonVlmConfig
from cloud_backbone.model.distilled_vlm import TendonVlmForConditionalGeneration
from cloud_backbone.model.position_code import coordinate_code
import torch

WORD_SCALE = 0.1
HEAD_SCALE = 0.5


def new_model(config: TendonVlmConfig, seed: int) -> TendonVlmForConditionalGeneration:
    """Build a model with reproducible start values."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = TendonVlmForConditionalGeneration(config)
        _set_words(model)
    return model.float()


@torch.no_grad()
def _set_words(model: TendonVlmForConditionalGeneration) -> None:
    """Fill word table and output head; location tokens get the code of their coordinate."""
    config = model.config
    table = model.model.language_model.embed_tokens.weight  # (vocabulary, hidden)
    table.normal_(0.0, WORD_SCALE)
    centre = (torch.arange(config.location_tokens) + 0.5) / config.location_tokens
    first = config.location_token_start
    code = coordinate_code(centre, table.shape[1])
    table[first : first + config.location_tokens] = WORD_SCALE * code
    model.lm_head.weight.copy_(HEAD_SCALE * table)

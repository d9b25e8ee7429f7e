# SPDX-License-Identifier: Apache-2.0
"""The real model in a small size with random weights, and its tokenizer."""

from functools import cache

from cloud_backbone.model.checkpoint import config_for
from cloud_backbone.model.distilled_vlm import TendonVlmForConditionalGeneration
from cloud_backbone.model.start_values import new_model
from cloud_backbone.model.tokenizer import train_tokenizer
from transformers import PreTrainedTokenizerFast


@cache
def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer that knows the words of plans."""
    return train_tokenizer([' put the red cube in the blue bin'])


def tiny_model(seed: int = 0) -> TendonVlmForConditionalGeneration:
    """Return a new model of the student's shape with two layers."""
    config = config_for(tiny_tokenizer(), 'student')
    config.text_config.num_hidden_layers = 2
    return new_model(config, seed).eval()

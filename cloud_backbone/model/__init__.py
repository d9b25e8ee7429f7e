# SPDX-License-Identifier: Apache-2.0
"""The distilled vision-language model and its tokenizer.

Importing this package makes the model known to the Auto classes of transformers.
"""

from __future__ import annotations

from cloud_backbone.model.configuration import TendonVisionConfig, TendonVlmConfig
from cloud_backbone.model.distilled_vlm import TendonVlmForConditionalGeneration
from transformers import AutoConfig, AutoModelForImageTextToText

AutoConfig.register('tendon_vision', TendonVisionConfig, exist_ok=True)
AutoConfig.register('tendon_vlm', TendonVlmConfig, exist_ok=True)
AutoModelForImageTextToText.register(
    TendonVlmConfig, TendonVlmForConditionalGeneration, exist_ok=True
)

__all__ = ['TendonVisionConfig', 'TendonVlmConfig', 'TendonVlmForConditionalGeneration']

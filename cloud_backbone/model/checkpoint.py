# SPDX-License-Identifier: Apache-2.0
"""A checkpoint directory: half precision on disk, single precision at run time.

Holds config.json, model.safetensors, the tokenizer and grammar.json, as transformers wants
them. Knows no training.
"""

from __future__ import annotations

import copy
from pathlib import Path

from cloud_backbone.model.configuration import (
    COLOURS,
    KINDS,
    student_text_config,
    teacher_text_config,
    TendonVlmConfig,
)
from cloud_backbone.model.distilled_vlm import TendonVlmForConditionalGeneration
from cloud_backbone.model.tokenizer import (
    IMAGE,
    IMAGE_END,
    IMAGE_START,
    location_start,
    word_id,
)
from cloud_backbone.plan_vocabulary import Vocabulary
import torch
from transformers import AutoModelForImageTextToText, AutoTokenizer, PreTrainedTokenizerFast

SIZES = {'student': student_text_config, 'teacher': teacher_text_config}


def config_for(tokenizer: PreTrainedTokenizerFast, size: str) -> TendonVlmConfig:
    """Return the configuration of a new model that uses this tokenizer.

    Raises:
        ValueError: an unknown size, or a tokenizer that splits a plan word.
    """
    if size not in SIZES:
        raise ValueError(f'unknown size {size!r}; known are {", ".join(SIZES)}')
    return TendonVlmConfig(
        text_config=SIZES[size](vocab_size=len(tokenizer)),
        image_token_id=IMAGE,
        image_start_token_id=IMAGE_START,
        image_end_token_id=IMAGE_END,
        location_token_start=location_start(tokenizer),
        colour_token_ids=tuple(word_id(tokenizer, colour) for colour in COLOURS),
        kind_token_ids=tuple(word_id(tokenizer, kind) for kind in KINDS),
    )


def save_checkpoint(
    directory: Path,
    model: TendonVlmForConditionalGeneration,
    tokenizer: PreTrainedTokenizerFast,
    vocabulary: Vocabulary | None = None,
) -> None:
    """Write a directory that `AutoModelForImageTextToText.from_pretrained` reads."""
    half = copy.deepcopy(model).half()
    half.save_pretrained(directory)
    (directory / 'model.safetensors').chmod(0o644)
    tokenizer.save_pretrained(directory)
    (vocabulary or Vocabulary()).save(directory)


def load_checkpoint(
    directory: Path | str,
) -> tuple[TendonVlmForConditionalGeneration, PreTrainedTokenizerFast]:
    """Read model and tokenizer for inference, in single precision.

    Raises:
        FileNotFoundError: the directory holds no config.json.
    """
    if not (Path(directory) / 'config.json').is_file():
        raise FileNotFoundError(f'{directory} holds no checkpoint: config.json is missing')
    model = AutoModelForImageTextToText.from_pretrained(directory, dtype=torch.float32)
    return model.eval(), read_tokenizer(directory)


def read_tokenizer(directory: Path | str) -> PreTrainedTokenizerFast:
    """Read the tokenizer of a checkpoint directory."""
    tokenizer: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(directory)
    return tokenizer

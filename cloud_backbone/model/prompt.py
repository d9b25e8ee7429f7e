# SPDX-License-Identifier: Apache-2.0
"""Order of a sequence: begin, instruction, image, answer, end.

What changes least comes first, so that a cache can keep it. Knows no model.
"""

from __future__ import annotations

import re
import unicodedata

from cloud_backbone.model.configuration import COLOURS, TendonVlmConfig
from cloud_backbone.model.spelling import Spelling
from cloud_backbone.model.tokenizer import BOS, EOS
from transformers import PreTrainedTokenizerFast

_MARKUP = re.compile(r'[<>]')
_SPACE = re.compile(r'\s+')
NOUNS = (
    'cube', 'block', 'brick', 'square', 'ball', 'sphere', 'cylinder', 'container', 'tray', 'round',
)
_SPELLING = Spelling((*COLOURS, *NOUNS))


def clean_instruction(instruction: str) -> str:
    """Return the instruction in lower case, names spelled right, without markup.

    Angle brackets go, so that nobody can write special or location tokens.
    """
    text = unicodedata.normalize('NFKC', instruction)
    words = _SPACE.sub(' ', _MARKUP.sub(' ', text)).strip().lower()
    return f' {_SPELLING.correct(words)}'


def instruction_ids(tokenizer: PreTrainedTokenizerFast, instruction: str) -> list[int]:
    """Return the tokens of an instruction, the begin token first."""
    text = clean_instruction(instruction)
    return [BOS, *tokenizer.encode(text, add_special_tokens=False)]


def image_ids(config: TendonVlmConfig) -> list[int]:
    """Return the tokens that hold the place of one image."""
    inside = [config.image_token_id] * config.image_seq_length
    return [config.image_start_token_id, *inside, config.image_end_token_id]


def prompt_ids(
    tokenizer: PreTrainedTokenizerFast, config: TendonVlmConfig, instruction: str
) -> list[int]:
    """Return all tokens before the answer."""
    return instruction_ids(tokenizer, instruction) + image_ids(config)


def answer_ids(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    """Return the tokens of a plan text, the end token last."""
    return [*tokenizer.encode(text, add_special_tokens=False), EOS]

# SPDX-License-Identifier: Apache-2.0
"""Order of a sequence: begin, tools, instruction, lessons, history, hand, image, answer, end.

What changes least comes first, so that a cache can keep it. A single question has neither tools
nor lessons nor history. Knows no model.
"""

from __future__ import annotations

import re
import unicodedata

from cloud_backbone.agent_words import entry_text, hand_text, lesson_text, read_lesson, SYSTEM
from cloud_backbone.model.configuration import COLOURS, TendonVlmConfig
from cloud_backbone.model.spelling import Spelling
from cloud_backbone.model.tokenizer import BOS, EOS
from cloud_backbone.plan_vocabulary import Vocabulary
from cloud_backbone.task_memory import Purpose, TaskMemory
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


def memory_parts(
    tokenizer: PreTrainedTokenizerFast, vocabulary: Vocabulary, instruction: str,
    memory: TaskMemory,
) -> list[tuple[str, list[int]]]:
    """Return the segments of an agent's sequence before the image, each with its name.

    Raises:
        ValueError: a lesson or an entry is not in the agent's language.
    """

    def ids(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False)  # type: ignore[no-any-return]

    lessons = [lesson_text(read_lesson(text, vocabulary)) for text in memory.lessons]
    history = [entry_text(entry, vocabulary) for entry in memory.entries]
    is_over = memory.purpose is Purpose.REFLECT
    return [
        ('system', [BOS, *ids(SYSTEM)]),
        ('goal', ids(clean_instruction(instruction))),
        ('lessons', [token for text in lessons for token in ids(text)]),
        ('history', [token for text in history for token in ids(text)]),
        ('scene', ids(hand_text(memory.hand_holds, is_over))),
    ]


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

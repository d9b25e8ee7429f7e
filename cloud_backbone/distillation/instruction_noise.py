# SPDX-License-Identifier: Apache-2.0
"""Puts words that mean nothing here into training instructions, so that new ones do no harm.

A random word is slipped in, or takes the place of the first word where the rest of the sentence
still tells the task. Names of things are never touched. Knows tokens, not images.
"""

from __future__ import annotations

from cloud_backbone.distillation.scene_shards import Instruction
from cloud_backbone.model.configuration import COLOURS, KINDS
from cloud_backbone.model.tokenizer import SPECIAL_TOKENS
from cloud_backbone.plan_grammar import LOCATION_TOKENS
import torch
from torch import Generator
from transformers import PreTrainedTokenizerFast

SYNONYMS = (
    'block', 'brick', 'square', 'sphere', 'round', 'can', 'tin', 'box', 'container', 'tray',
)  # fmt: skip
TELLING = ('push', 'slide', 'shove', 'nudge', 'pushed', 'pushing', 'stack', 'tower', 'base')
INSERT_SHARE = 0.2
REPLACE_SHARE = 0.15
PLACING = (' in ', ' into ', ' inside ', ' on ', ' onto ')


class InstructionNoise:
    """Disturbs the tokens of an instruction."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        kept = set(range(len(SPECIAL_TOKENS)))
        kept |= set(tokenizer.convert_tokens_to_ids(list(LOCATION_TOKENS)))
        for word in (*COLOURS, *KINDS, *SYNONYMS, *TELLING, 'the', 'that', 'this'):
            kept |= set(tokenizer.encode(f' {word}', add_special_tokens=False))
        self._kept = kept
        self._fillers = [index for index in range(len(tokenizer)) if index not in kept]

    def disturb(
        self, before: list[int], instruction: Instruction, generator: Generator
    ) -> list[int]:
        """Return the begin token and the disturbed instruction."""
        insert, replace = torch.rand(2, generator=generator).tolist()
        if replace < REPLACE_SHARE and self._first_word_is_spare(before, instruction):
            before = [before[0], self._filler(generator), *before[2:]]
        if insert < INSERT_SHARE:
            at = int(torch.randint(1, len(before) + 1, (1,), generator=generator))
            before = [*before[:at], self._filler(generator), *before[at:]]
        return before

    def _first_word_is_spare(self, before: list[int], instruction: Instruction) -> bool:
        """Say whether the task is still told without the first word."""
        text = f' {instruction.text.lower()} '
        told = instruction.task == 'pick' or any(word in text for word in PLACING)
        return told and instruction.task != 'push' and before[1] not in self._kept

    def _filler(self, generator: Generator) -> int:
        index = int(torch.randint(len(self._fillers), (1,), generator=generator))
        return self._fillers[index]

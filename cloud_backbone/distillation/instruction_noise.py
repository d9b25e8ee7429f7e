# SPDX-License-Identifier: Apache-2.0
"""Puts words that mean nothing here into training instructions, so that new ones do no harm.

Random words are slipped in, or take the place of the first word where the rest of the sentence
still tells the task. Names of things are never touched; a kind without a colour before it names
nothing ("can you ..."). Knows tokens, not images.
"""

from __future__ import annotations

from collections.abc import Iterable

from cloud_backbone.agent_words import AGENT_TOKENS
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
PLACES = ('in', 'into', 'inside', 'on', 'onto', 'to', 'top', 'towards', 'under', 'up')
INSERT_SHARE = 0.35
REPLACE_SHARE = 0.2
KIND_SHARE = 0.15
MOST_WORDS = 2
PLACING = (' in ', ' into ', ' inside ', ' on ', ' onto ')


class InstructionNoise:
    """Disturbs the tokens of an instruction."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        kept = set(range(len(SPECIAL_TOKENS)))
        kept |= set(tokenizer.convert_tokens_to_ids([*LOCATION_TOKENS, *AGENT_TOKENS]))
        self._colours = _whole_words(tokenizer, COLOURS)
        self._kinds = sorted(_whole_words(tokenizer, (*KINDS, *SYNONYMS)))
        kept |= _whole_words(tokenizer, (*TELLING, *PLACES, 'the', 'that', 'this'))
        self._kept = kept | self._colours | set(self._kinds)
        self._fillers = [index for index in range(len(tokenizer)) if index not in self._kept]

    def disturb(
        self, before: list[int], instruction: Instruction, generator: Generator
    ) -> list[int]:
        """Return the begin token and the disturbed instruction."""
        insert, replace = torch.rand(2, generator=generator).tolist()
        if replace < REPLACE_SHARE and self._first_word_is_spare(before, instruction):
            before = [before[0], self._filler(generator), *before[2:]]
        if insert < INSERT_SHARE:
            before = self._slip_in(before, generator)
        return before

    def _slip_in(self, before: list[int], generator: Generator) -> list[int]:
        """Put a few words anywhere but after a colour."""
        places = [at for at in range(1, len(before) + 1) if before[at - 1] not in self._colours]
        at = places[_below(len(places), generator)]
        words = [self._filler(generator) for _ in range(1 + _below(MOST_WORDS, generator))]
        if float(torch.rand(1, generator=generator)) < KIND_SHARE:
            words[0] = self._kinds[_below(len(self._kinds), generator)]
        return [*before[:at], *words, *before[at:]]

    def _first_word_is_spare(self, before: list[int], instruction: Instruction) -> bool:
        """Say whether the task is still told without the first word."""
        text = f' {instruction.text.lower()} '
        told = instruction.task == 'pick' or any(word in text for word in PLACING)
        return told and instruction.task != 'push' and before[1] not in self._kept

    def _filler(self, generator: Generator) -> int:
        return self._fillers[_below(len(self._fillers), generator)]


def _whole_words(tokenizer: PreTrainedTokenizerFast, words: Iterable[str]) -> set[int]:
    """Return the tokens of those words that are one token."""
    spelled = (tokenizer.encode(f' {word}', add_special_tokens=False) for word in words)
    return {ids[0] for ids in spelled if len(ids) == 1}


def _below(limit: int, generator: Generator) -> int:
    """Draw an index below `limit`."""
    return int(torch.randint(limit, (1,), generator=generator))

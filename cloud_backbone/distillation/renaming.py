# SPDX-License-Identifier: Apache-2.0
"""Calls colours by other colours' names, the same way in instruction, image tokens and answer.

A model that learns names by heart never writes a pair that training lacks; one that has seen
names change places copies what it is told. Knows tokens, not images: no picture changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from cloud_backbone.distillation.scene_shards import Instruction
from cloud_backbone.model.configuration import COLOURS, TendonVlmConfig
import torch
from torch import Generator

RENAMED_SHARE = 0.5
TRUE_NAMES = tuple(range(len(COLOURS)))


def draw_names(
    before: list[int], instruction: Instruction, config: TendonVlmConfig, generator: Generator
) -> tuple[int, ...]:
    """Return how each colour is called, as indices into COLOURS.

    A row whose colours are not all spelled as single tokens keeps the true names.
    """
    named = 1 if instruction.task == 'pick' else 2
    spelled = sum(token in config.colour_token_ids for token in before)
    if spelled != named or float(torch.rand(1, generator=generator)) >= RENAMED_SHARE:
        return TRUE_NAMES
    return tuple(torch.randperm(len(COLOURS), generator=generator).tolist())


def rename(
    tokens: Sequence[int], names: tuple[int, ...], config: TendonVlmConfig
) -> list[int]:
    """Return the tokens with every colour called by its new name."""
    ids = config.colour_token_ids
    called = {ids[colour]: ids[name] for colour, name in enumerate(names)}
    return [called.get(token, token) for token in tokens]

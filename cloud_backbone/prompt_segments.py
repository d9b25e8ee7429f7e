# SPDX-License-Identifier: Apache-2.0
"""A prompt and what was written after it as named segments. Knows prompts; knows no cache."""

from __future__ import annotations

from collections.abc import Sequence

from cloud_backbone.kv_state.segment import chain_hash, Segment, SegmentImage
from cloud_backbone.model.backbone import Prompt
from cloud_backbone.turn_cache import Sight
import torch
from torch import Tensor

SCENE, SCRATCH = 'scene', 'scratch'


def segments_of(prompt: Prompt, tokens: Sequence[int], sight: Sight) -> list[Segment]:
    """Return the named parts of a prompt and of what was written after it."""
    sizes = prompt.parts or (
        ('goal', prompt.stable), (SCENE, len(prompt.tokens) - prompt.stable)
    )
    segments, first = [], 0
    for name, size in (*sizes, (SCRATCH, len(tokens) - len(prompt.tokens))):
        shown = (sight.epoch, SegmentImage(sight.sha256)) if name == SCENE else (None, None)
        segments.append(Segment(name, tuple(tokens[first : first + size]), *shown))
        first += size
    return segments


def hash_of(prompt: Prompt, tokens: Sequence[int], sight: Sight) -> str:
    """Return the digest over tokens and image of a sequence, in hexadecimal."""
    return chain_hash(segments_of(prompt, tokens, sight))


def spots_of(prompt: Prompt, tokens: int) -> Tensor | None:
    """Return rotary positions (axes, tokens) where the prompt has several axes."""
    rope = prompt.rope_positions
    if rope is None:
        return None
    after = torch.arange(tokens - rope.shape[1]) + int(rope.max()) + 1
    return torch.cat([rope, after.expand(rope.shape[0], -1)], 1)

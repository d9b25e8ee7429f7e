# SPDX-License-Identifier: Apache-2.0
"""The onboard planner's ears: a small network from the words of a sentence to what it asks for.

Knows the numbers of words, not the words; sees no picture.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from onboard_decoder.fallback.onboard_model import TASKS
from onboard_decoder.training.planner_eyes import COLOURS, KINDS
import torch
from torch import nn, Tensor

MOST_WORDS = 24


class Heard(NamedTuple):
    """Logits of a sentence: (batch, tasks), and colour and kind of the thing and the place."""

    task: Tensor
    a_colour: Tensor
    a_kind: Tensor
    b_colour: Tensor
    b_kind: Tensor


class _Layer(nn.Module):
    """Pre-norm transformer layer; padding is not looked at."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_a, self.norm_b = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mix = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        """Keep the shape (batch, words, width); ``padding`` (batch, 1, 1, words) is added."""
        batch, words, width = x.shape
        split = self.qkv(self.norm_a(x)).view(batch, words, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        score = query @ key.transpose(-1, -2) / math.sqrt(width // self.heads) + padding
        seen = score.softmax(-1) @ value
        x = x + self.out(seen.transpose(1, 2).reshape(batch, words, width))
        changed: Tensor = x + self.mix(self.norm_b(x))
        return changed


class Ears(nn.Module):
    """Word numbers to what is asked for; 0 is no word."""

    def __init__(self, words: int, width: int = 64, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.sizes = (len(TASKS), len(COLOURS), len(KINDS), len(COLOURS), len(KINDS))
        self.word = nn.Embedding(words, width)
        self.place = nn.Parameter(torch.randn(MOST_WORDS, width) * 0.1)
        self.question = nn.Parameter(torch.randn(len(self.sizes), width) * 0.1)
        self.layers = nn.ModuleList(_Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.answers = nn.ModuleList(nn.Linear(width, size) for size in self.sizes)

    def forward(self, words: Tensor) -> Heard:
        """Read (batch, 24) word numbers."""
        batch, questions = len(words), len(self.sizes)
        x = torch.cat([
            self.question.expand(batch, -1, -1), self.word(words) + self.place], dim=1)
        asked = torch.ones((batch, questions), dtype=torch.bool, device=words.device)
        there = torch.cat([asked, words > 0], dim=1)
        padding = torch.where(there, 0.0, -1e4)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, padding)
        x = self.norm(x)
        return Heard(*(answer(x[:, i]) for i, answer in enumerate(self.answers)))

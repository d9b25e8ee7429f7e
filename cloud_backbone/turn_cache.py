# SPDX-License-Identifier: Apache-2.0
"""What a turn asks of the cache it is written on; a plain one and one with memory answer it.

Knows prompts and images' names; knows no session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import hashlib
from typing import Protocol

from cloud_backbone.action_plan import Certificate
from cloud_backbone.model.backbone import Backbone, Image, Prompt
from transformers.cache_utils import Cache


@dataclass(frozen=True)
class Sight:
    """One image, by its name, and the observation that it is of."""

    epoch: int
    sha256: str
    """Of its pixels, in hexadecimal."""


def sight_of(image: Image, epoch: int) -> Sight:
    """Return the name of an image."""
    return Sight(epoch, hashlib.sha256(image.tobytes()).hexdigest())


class TurnCache(Protocol):
    """Keys and values of one kind of questions of one session."""

    last_text: str
    """What was last written for this very question, if anything."""

    def open(self, backbone: Backbone) -> Cache:
        """Return the cache; its first use makes it."""

    def reuse(self, prompt: Prompt, sight: Sight) -> int:
        """Crop to what the prompt begins with; return how many of its tokens are held."""

    def hold(self, prompt: Prompt, tokens: Sequence[int], sight: Sight, text: str) -> None:
        """Keep what the cache holds now: exactly these tokens, the prompt's first."""

    def certificate(self, sight: Sight) -> Certificate:
        """Say what an answer that was just held rests on."""

    def clear(self) -> None:
        """Forget keys and values, for example after an error in the middle of a turn."""

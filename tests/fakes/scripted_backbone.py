# SPDX-License-Identifier: Apache-2.0
"""A model that writes what it is told: the real service runs on it, with no weights.

It speaks the interface of ``cloud_backbone.model.backbone``, down to logits and a real cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import re
import time

from cloud_backbone.constrained_decoding import PlanLanguage
from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import tentative_cache
from cloud_backbone.kv_cache.hook import attention
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.model.backbone import Chunk, Image, Prediction, Prompt, Scene
from cloud_backbone.plan_vocabulary import Vocabulary
import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.cache_utils import Cache

IMAGE, LOCATION, VOCABULARY = 256, 300, 428
CERTAIN = 20.0
HEAD_DIM = 8
PICK = ' The red cube is at <064><064>. Plan: reach A, grasp A, lift, hold.'


class ByteCodec:
    """One token per byte, and location tokens."""

    location_ids = torch.arange(LOCATION, LOCATION + 128)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text; ``<042>`` is one token."""
        tokens: list[int] = []
        for index, part in enumerate(re.split(r'<(\d{3})>', text)):
            tokens += [LOCATION + int(part)] if index % 2 else list(part.encode())
        return tokens


class ScriptedBackbone:
    """Writes ``script(instruction)`` for every instruction.

    ``delay_s`` is spent in each look at images; ``batches`` records how many rows each had,
    ``forwards`` how many tokens each forward; ``fail`` is raised by the next look, once.
    """

    fingerprint = 'scripted-model'
    image_size = (128, 128)
    latent_size = 2
    can_batch = True
    can_compress = True

    def __init__(
        self, script: Callable[[str], str] = lambda instruction: PICK, delay_s: float = 0.0
    ) -> None:
        self.language = PlanLanguage(Vocabulary(), ByteCodec())
        self.delay_s = delay_s
        self.batches: list[int] = []
        self.forwards: list[int] = []
        self.fail: Exception | None = None
        self._script = script

    def prompt(self, instruction: str) -> Prompt:
        """Return the bytes of the instruction and one image token."""
        tokens = tuple(instruction.encode())
        return Prompt((*tokens, IMAGE), stable=len(tokens))

    def see(self, images: Sequence[Image]) -> list[Scene]:
        """Look at nothing, for a while."""
        time.sleep(self.delay_s)
        self.batches.append(len(images))
        if self.fail is not None:
            error, self.fail = self.fail, None
            raise error
        return [Scene() for _ in images]

    def new_cache(self, pool: BlockPool, policy: Policy, budget_bytes: int | None) -> Cache:
        """Return an empty cache of one layer."""
        return tentative_cache(LlamaConfig(num_hidden_layers=1), pool, policy, budget_bytes)

    def forward(self, chunk: Chunk, cache: Cache) -> Prediction:
        """Predict the script."""
        batch, width = chunk.tokens.shape
        self.forwards.append(width)
        states = torch.zeros(batch, 1, width, HEAD_DIM)
        key, value = cache.update(states, states, 0)
        attention(torch.nn.Module(), states, key, value, chunk.mask)
        logits = torch.zeros(batch, chunk.predict, VOCABULARY)
        for row, prompt in enumerate(chunk.prompts):
            script = self._answer(prompt)
            for place in range(chunk.predict):
                position = int(chunk.positions[row, place - chunk.predict])
                following = position + 1 - len(prompt.tokens)
                if 0 <= following < len(script):
                    logits[row, place, script[following]] = CERTAIN
        return Prediction(logits, torch.ones(batch, chunk.predict, 2))

    def latent(self, hidden: Tensor) -> list[float]:
        """Return the state itself."""
        values: list[float] = hidden.tolist()
        return values

    def _answer(self, prompt: Prompt) -> list[int]:
        instruction = bytes(prompt.tokens[:-1]).decode()
        return ByteCodec().encode(self._script(instruction))

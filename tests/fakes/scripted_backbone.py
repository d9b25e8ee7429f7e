# SPDX-License-Identifier: Apache-2.0
"""A model that writes what it is told: the real service runs on it, with no weights.

It speaks the interface of ``cloud_backbone.model.backbone``, down to logits and a real cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
import re
import time
from typing import Any

from cloud_backbone.act import Symbols
from cloud_backbone.agent_words import AGENT_TOKENS, entry_text, hand_text, SYSTEM
from cloud_backbone.constrained_decoding import PlanLanguage
from cloud_backbone.grammar_matcher import GrammarMatcher, LlgMatcher
from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import tentative_cache
from cloud_backbone.kv_cache.hook import attention
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.model.backbone import Chunk, Image, Prediction, Prompt, Scene
from cloud_backbone.plan_grammar import LOCATION_TOKENS
from cloud_backbone.plan_vocabulary import Vocabulary
from cloud_backbone.task_memory import Purpose, TaskMemory
import llguidance
from llguidance import TokenizerWrapper
import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.cache_utils import Cache

IMAGE, END, AGENT, LOCATION, VOCABULARY = 256, 257, 260, 300, 428
WORDS = {word: AGENT + index for index, word in enumerate(AGENT_TOKENS)}
WORDS |= {word: LOCATION + index for index, word in enumerate(LOCATION_TOKENS)}
PIECES = {**{byte: bytes([byte]) for byte in range(256)}, IMAGE: b'', END: b''}
PIECES |= {token: word.encode() for word, token in WORDS.items()}
CERTAIN = 20.0
HEAD_DIM = 8
PICK = ' The red cube is at <064><064>. Plan: reach A, grasp A, lift, hold.'


class ByteCodec:
    """One token per byte, per location and per word of the agent."""

    location_ids = torch.arange(LOCATION, LOCATION + 128)
    end_id = END
    symbols = Symbols(lambda word: f'<[{WORDS[word]}]>', f'<[{LOCATION}-{LOCATION + 127}]>')

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text; ``<042>`` is one token."""
        tokens: list[int] = []
        for part in re.split(r'(<\w+>)', text):
            tokens += [WORDS[part]] if part in WORDS else list(part.encode())
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""
        return b''.join(PIECES[token] for token in tokens).decode()

    def matcher(self, grammar: str) -> GrammarMatcher:
        """Return a matcher at the beginning of a Lark grammar."""
        form = llguidance.LLMatcher.grammar_from_lark(grammar)
        return LlgMatcher(llguidance.LLMatcher(_byte_tokenizer(), form))


class _Bytes:
    """What llguidance wants to know of the codec."""

    eos_token_id, bos_token_id = END, None
    special_token_ids = list(range(256, VOCABULARY))
    tokens = [
        bytes([token]) if token < 256 else b'\xff[%d]' % token for token in range(VOCABULARY)
    ]

    def __call__(self, text: bytes) -> list[int]:
        """Return the tokens of bytes."""
        return list(text)


@cache
def _byte_tokenizer() -> Any:
    return llguidance.LLTokenizer(TokenizerWrapper(_Bytes()))


class ScriptedBackbone:
    """Writes ``script(instruction)`` for every instruction; an agent's script gets all its memory.

    ``delay_s`` is spent in each look at images; ``batches`` records how many rows each had,
    ``forwards`` how many tokens each forward; ``fail`` is raised by the next look, once.
    """

    fingerprint = 'scripted-model'
    image_size = (128, 128)
    latent_size = 2
    can_batch = True
    can_compress = True
    has_agent_words = True
    image_token = IMAGE
    network = processor = None

    def __init__(
        self, script: Callable[[str], str] = lambda instruction: PICK, delay_s: float = 0.0
    ) -> None:
        self.language = PlanLanguage(Vocabulary(), ByteCodec())
        self.delay_s = delay_s
        self.batches: list[int] = []
        self.forwards: list[int] = []
        self.fail: Exception | None = None
        self._script = script

    def prompt(self, instruction: str, memory: TaskMemory | None = None) -> Prompt:
        """Return the bytes of the instruction and of the memory, and one image token."""
        parts = [('goal', instruction), ('scene', '')]
        if memory is not None:
            entries = [entry_text(entry, self.language.vocabulary) for entry in memory.entries]
            hand = hand_text(memory.hand_holds, memory.purpose is Purpose.REFLECT)
            parts = [
                ('system', SYSTEM), ('goal', instruction), ('lessons', ''.join(memory.lessons)),
                ('history', ''.join(entries)), ('scene', hand),
            ]
        encoded = [(name, self.language.codec.encode(text)) for name, text in parts]
        tokens = [token for _, part in encoded for token in part]
        sizes = [(name, len(part) + (name == 'scene')) for name, part in encoded]
        return Prompt((*tokens, IMAGE), stable=len(tokens), parts=tuple(sizes))

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
        codec = ByteCodec()
        return [*codec.encode(self._script(codec.decode(prompt.tokens[:-1]))), END]

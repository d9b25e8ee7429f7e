# SPDX-License-Identifier: Apache-2.0
"""The models of the bench: SmolLM2 with its real weights, and the text part of a checkpoint."""

from pathlib import Path

from cloud_backbone.config import SHIPPED_CHECKPOINT
from cloud_backbone.model.checkpoint_files import load_model, load_processor
from tendon.bench_kv.subject import default_folder, Subject

OWN = 'tabletop'
QUANTIZED = 'SmolLM2-135M-Instruct.Q4_1.gguf'


def own(checkpoint: Path | None = None) -> Subject:
    """Return a checkpoint of Tendon; no image is shown to it.

    Raises:
        StartError: it is none, or its files are broken.
    """
    path = checkpoint or SHIPPED_CHECKPOINT
    tokenizer = load_processor(path)

    def encode(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False))

    return Subject(path.name, load_model(path, 'cpu'), encode)


def single_precision(weights: Path | None) -> Path:
    """Return where the GGUF file for llama.cpp is kept: beside the converted weights."""
    folder = weights or default_folder()
    return folder.with_name(f'{folder.name}-f32.gguf')

# SPDX-License-Identifier: Apache-2.0
"""The files of a checkpoint directory: are they there, what are they, do they load.

Knows Hugging Face's layout; turns each way in which it can be broken into one sentence.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from cloud_backbone.errors import StartError
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor
from transformers.utils import logging

FINGERPRINTED = ('.safetensors', '.json', '.model', '.txt', '.jinja')
REMEDY = 'give a checkpoint directory, or make one with "tendon distill"'


def check_files(path: Path) -> None:
    """Refuse a directory without configuration or weights.

    Raises:
        StartError: with the missing file and the remedy.
    """
    if not path.is_dir():
        raise StartError(f'no checkpoint directory at {path}: {REMEDY}')
    if not (path / 'config.json').is_file():
        raise StartError(f'{path} is no checkpoint, config.json is missing: {REMEDY}')
    if not any(path.glob('*.safetensors')):
        raise StartError(
            f'{path} has no weights, there is no .safetensors file in it: copy the weights there, '
            f'or {REMEDY}'
        )


def model_type(path: Path) -> str:
    """Return ``model_type`` of config.json. Raises StartError if it cannot be read."""
    try:
        return str(json.loads((path / 'config.json').read_text(encoding='utf-8'))['model_type'])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StartError(f'{path / "config.json"} names no model_type: {REMEDY}') from error


def load_model(path: Path, device: str) -> Any:
    """Load the weights in single precision on a CPU, in the stored precision elsewhere.

    Raises:
        StartError: the files do not fit together.
    """
    # The library prints bars and a table of keys; what matters of it is in the error below.
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    dtype = torch.float32 if device == 'cpu' else 'auto'
    model: Any
    report: dict[str, Any]
    auto: Any = AutoModelForImageTextToText
    try:
        model, report = auto.from_pretrained(
            path, dtype=dtype, local_files_only=True, output_loading_info=True
        )
    except Exception as error:
        problem = f'cannot load the model in {path}: {_first_line(error)}'
        raise StartError(f'{problem}; {REMEDY}') from error
    missing = sorted(report['missing_keys'])
    if missing:
        raise StartError(
            f'{path} lacks {len(missing)} weights, the first is {missing[0]}: the .safetensors '
            f'files do not fit config.json; {REMEDY}'
        )
    return model.eval().requires_grad_(False).to(device)


def load_processor(path: Path) -> Any:
    """Load the processor, or the tokenizer of a checkpoint that has no processor.

    Raises:
        StartError: its files are missing or broken.
    """
    try:
        return AutoProcessor.from_pretrained(path, local_files_only=True)
    except Exception as error:
        raise StartError(
            f'cannot load the tokenizer or processor in {path}: {_first_line(error)}; {REMEDY}'
        ) from error


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of weights, configuration and tokenizer, names included."""
    digest = hashlib.sha256()
    files = (file for file in path.iterdir() if file.suffix in FINGERPRINTED and file.is_file())
    for file in sorted(files, key=lambda file: file.name):
        digest.update(file.name.encode() + b'\0')
        with file.open('rb') as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]

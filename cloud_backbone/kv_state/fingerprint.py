# SPDX-License-Identifier: Apache-2.0
"""What a snapshot rests on besides its tokens: keys and values of anything else mean nothing.

Each field is a short digest or a plain word, so that a refusal can name the one that differs.
Knows models, tokenizers and policies of their libraries; knows no file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
import hashlib
import json
from typing import Any

from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.kv_cache.session_image import LAYOUT, policy_words
from cloud_backbone.kv_state.errors import FingerprintMismatch
import torch
from torch import nn
import transformers

NONE = 'none'
VOLATILE = (
    '_name_or_path', '_attn_implementation', '_attn_implementation_internal', 'architectures',
    'dtype', 'torch_dtype', 'transformers_version', 'use_cache', 'output_attentions',
    'output_hidden_states', 'return_dict',
)
"""Of a configuration: what changes no number, or has a field of its own."""
ROPE = (
    'rope_parameters', 'rope_scaling', 'rope_theta', 'partial_rotary_factor', 'layer_types',
    'rope_local_base_freq', 'max_position_embeddings',
)


@dataclass(frozen=True)
class Fingerprint:
    """What keys, values and token ids of a session depend on."""

    weights: str
    config: str
    tokenizer: str
    chat_template: str
    tool_schema: str
    image_processor: str
    adapters: str
    """Names and digests of what was added to the weights."""
    rope: str
    """How positions turn keys, of all layers."""
    dtype: str
    cache_policy: str
    """Its name, and a digest of all that it says."""
    kv_layout: str
    """Version of the tensors of a session."""
    library: str
    """Name and major version of what computed."""

    def check(self, served: Fingerprint) -> None:
        """Refuse what is served now if it is not what a snapshot was made with.

        Raises:
            FingerprintMismatch: it names the first field that differs.
        """
        self._compare([field.name for field in fields(self)], served)

    def check_meaning(self, served: Fingerprint) -> None:
        """Refuse only where the same token ids would mean something else.

        Raises:
            FingerprintMismatch: it names the first field that differs.
        """
        self._compare(MEANING, served)

    def _compare(self, names: Sequence[str], served: Fingerprint) -> None:
        for name in names:
            want, got = getattr(self, name), getattr(served, name)
            if want != got:
                raise FingerprintMismatch(name, want, got)

    def words(self) -> dict[str, str]:
        """Return it as JSON knows it."""
        return asdict(self)

    @classmethod
    def from_words(cls, words: Mapping[str, str]) -> Fingerprint:
        """Return what ``words`` was called of; a field that is not there is unknown."""
        return cls(**{field.name: str(words.get(field.name, 'unknown')) for field in fields(cls)})


MEANING = ('tokenizer', 'chat_template', 'tool_schema', 'image_processor')
"""Fields without which token ids and images mean something else."""


def fingerprint_of(
    model: nn.Module, policy: Policy, processor: Any = None, *, tools: Any = None,
    weights: str | None = None,
) -> Fingerprint:
    """Return the fingerprint of what is served.

    Args:
        model: of transformers.
        policy: of the session's cache.
        processor: processor or tokenizer of the model, if there is one.
        tools: the schema of the tools that the prompt speaks of, as JSON knows it.
        weights: digest of the weights where it is known (of the checkpoint's files); None: it is
            made here from all parameters, which takes about a second for each GB.
    """
    config: Any = model.config
    tokenizer = getattr(processor, 'tokenizer', processor)
    text_config = config.get_text_config(decoder=True)
    template = getattr(processor, 'chat_template', None) or getattr(
        tokenizer, 'chat_template', None
    )
    pictures = getattr(processor, 'image_processor', None)
    return Fingerprint(
        weights=weights or digest_of_weights(model),
        config=_digest(_without(config.to_dict(), VOLATILE)),
        tokenizer=digest_of_tokenizer(tokenizer),
        chat_template=NONE if template is None else _digest(template),
        tool_schema=NONE if tools is None else _digest(tools),
        image_processor=NONE if pictures is None else _digest(
            _without(pictures.to_dict(), VOLATILE)
        ),
        adapters=_adapters(model),
        rope=_rope(text_config.to_dict()),
        dtype=str(next(model.parameters()).dtype).removeprefix('torch.'),
        cache_policy=f'{policy.name} {_digest(policy_words(policy))}',
        kv_layout=str(LAYOUT),
        library=f'transformers {transformers.__version__.partition(".")[0]}',
    )


def digest_of_weights(model: nn.Module) -> str:
    """Return the SHA-256 of names, types, shapes and bytes of all parameters and buffers."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f'{name} {tensor.dtype} {tuple(tensor.shape)}\0'.encode())
        if tensor.numel():
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            digest.update(memoryview(flat.view(torch.uint8).numpy()))
    return digest.hexdigest()[:32]


def digest_of_tokenizer(tokenizer: Any) -> str:
    """Return the SHA-256 of all that a tokenizer says of itself; NONE where there is none."""
    if tokenizer is None:
        return NONE
    backend = getattr(tokenizer, 'backend_tokenizer', None)
    if backend is not None:
        return _digest(json.loads(backend.to_str()))
    return _digest(sorted(tokenizer.get_vocab().items()))


def _adapters(model: nn.Module) -> str:
    """Return what low-rank adapters say of themselves, where the model has some."""
    found: Any = getattr(model, 'peft_config', None)
    if not found:
        return NONE
    said = {name: config.to_dict() for name, config in found.items()}
    parts = {
        name: tensor for name, tensor in model.state_dict().items() if 'lora_' in name
    }
    totals = {name: float(tensor.double().sum()) for name, tensor in parts.items()}
    return f'{", ".join(sorted(said))} {_digest([said, totals])}'


def _rope(config: Mapping[str, Any]) -> str:
    said = {name: config[name] for name in ROPE if config.get(name) is not None}
    kind = said.get('rope_parameters') or said.get('rope_scaling') or {}
    name = kind.get('rope_type', 'default') if isinstance(kind, dict) else 'default'
    return f'{name} {_digest(said)}'


def _without(said: Any, names: Sequence[str]) -> Any:
    """Return words without some keys, however deep."""
    if isinstance(said, dict):
        return {key: _without(value, names) for key, value in said.items() if key not in names}
    return [_without(value, names) for value in said] if isinstance(said, (list, tuple)) else said


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(',', ':'), default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:32]

# SPDX-License-Identifier: Apache-2.0
"""Any causal decoder of transformers, with or without images, as a model of states.

Positions are always given to the model, so that what it remembers of another session (the rope
delta of the Qwen-VL family) is never read. Knows no segments.
"""

from __future__ import annotations

from collections.abc import Sequence
import inspect
import sys
from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.hook import attach
from cloud_backbone.kv_cache.key_rotation import KeyRotation
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.kv_cache.rotary_table import RotaryTable
from cloud_backbone.kv_state.errors import StateError, UnsupportedModel, UnsupportedMove
from cloud_backbone.kv_state.kept_cache import KeptCache
from cloud_backbone.kv_state.segment import SegmentImage
import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache


class TransformersModel:
    """A model of transformers; its attention goes through the compressed cache from now on.

    Args:
        model: with a language-model head.
        fingerprint: of its weights; without one no calibration of edits counts for it.

    Raises:
        UnsupportedModel: its tokens see tokens behind them, or its cache is none of the library's.
    """

    def __init__(self, model: Any, fingerprint: str = '') -> None:
        self.model, self.fingerprint = model, fingerprint
        config = model.config
        if config.model_type in ('paligemma', 'paligemma2'):
            raise UnsupportedModel(
                f'{config.model_type} lets its prompt see all of itself, so that no token of it '
                'stays as it is when others are appended'
            )
        self.image_token: int | None = getattr(config, 'image_token_id', None)
        parameters = inspect.signature(model.forward).parameters
        # The library renamed this argument between its releases 5.2 and 5.24.
        self._cache_name = 'cache' if 'cache' in parameters else 'past_key_values'
        self._rope_index = getattr(getattr(model, 'model', None), 'get_rope_index', None)
        self._axes = 1 if self._rope_index is None else 3
        self._words: int = model.get_input_embeddings().weight.shape[0]
        self._rotations: dict[int, KeyRotation] = {}
        self._compresses = _attached(model)

    def new_cache(self, pool: BlockPool, policy: Policy, budget_bytes: int | None) -> Cache:
        """Return an empty cache: a compressed one where the model allows it."""
        if self._compresses:
            return KeptCache.tentative(self.model.config, pool, policy, budget_bytes)
        if not policy.lossless:
            raise UnsupportedModel(
                f'{type(self.model).__name__} does not take its attention by name: '
                f'policy {policy.name} is impossible, use full'
            )
        return DynamicCache(config=self.model.config)

    def spots(self, tokens: Sequence[int], image: SegmentImage | None, first: int) -> Tensor:
        """Return rotary positions (axes, tokens)."""
        plain = torch.arange(first, first + len(tokens)).expand(self._axes, -1)
        if self._rope_index is None or image is None or self.image_token not in tokens:
            return plain
        ids = torch.tensor([list(tokens)])
        inputs = {
            **(image.tensors or {}), 'input_ids': ids,
            'mm_token_type_ids': (ids == self.image_token).int(),
        }
        known = inspect.signature(self._rope_index).parameters
        given = {name: value for name, value in inputs.items() if name in known}
        return self._rope_index(**given)[0][:, 0].cpu() + first

    def forward(
        self, cache: Cache, tokens: Sequence[int], spots: Tensor, image: SegmentImage | None,
        predict: int,
    ) -> Tensor:
        """Append tokens to a cache; return what follows the last ones (predict, vocabulary).

        Raises:
            StateError: the model knows no such token.
        """
        self._check(tokens)
        device = self.model.device
        shows = image is not None and self.image_token in tokens
        tensors = dict(image.tensors or {}) if shows and image is not None else {}
        with torch.no_grad():
            output = self.model(
                input_ids=torch.tensor([list(tokens)], device=device),
                position_ids=(spots if self._axes == 1 else spots[:, None]).to(device),
                use_cache=True,
                logits_to_keep=predict,
                **{self._cache_name: cache},
                **tensors,
            )
        logits: Tensor = output.logits[0, -predict:].float().cpu()
        return logits

    def _check(self, tokens: Sequence[int]) -> None:
        for token in (min(tokens), max(tokens)):
            if not 0 <= token < self._words:
                raise StateError(f'token {token} is not one of 0 to {self._words - 1}')

    def rotation(self, layer: int) -> KeyRotation:
        """Return how keys of a layer turn."""
        if layer not in self._rotations:
            self._rotations[layer] = rotation_of(self.model, layer)
        return self._rotations[layer]


def _attached(model: Any) -> bool:
    try:
        attach(model)
    except (CacheError, ValueError):
        return False
    return True


def rotation_of(model: Any, layer: int) -> KeyRotation:
    """Return how keys of a layer turn in any model of transformers.

    Raises:
        UnsupportedMove: it has no rotary positions, or they depend on more than the position.
    """
    decoder = next(
        (part for part in model.modules() if hasattr(part, 'layers')
         and hasattr(part, 'rotary_emb')), None,
    )
    if decoder is None:
        raise UnsupportedMove(f'{type(model).__name__} has no rotary positions')
    rotary = decoder.rotary_emb
    kinds = getattr(decoder.config, 'layer_types', None)
    kind = kinds[layer] if kinds else ''
    own = f'{kind}_inv_freq'
    bound = _OfLayer(rotary, kind) if hasattr(rotary, own) else rotary
    attention = decoder.layers[layer].self_attn
    rotate = getattr(sys.modules[type(attention).__module__], 'apply_rotary_pos_emb', None)
    try:
        table = RotaryTable(bound, rotate, torch.float32)
    except CacheError as error:
        raise UnsupportedMove(str(error)) from error
    frequencies = getattr(rotary, own) if hasattr(rotary, own) else rotary.inv_freq
    return KeyRotation(frequencies.float().cpu(), table.first, table.second)


class _OfLayer:
    """The embedding of one kind of layers, where a model has several."""

    def __init__(self, rotary: Any, kind: str) -> None:
        self._rotary, self._kind = rotary, kind
        kinds = rotary.rope_type
        self.rope_type = kinds[kind] if isinstance(kinds, dict) else kinds
        self.config = rotary.config

    def forward(self, states: Tensor, positions: Tensor) -> Any:
        """Answer for this kind."""
        return self._rotary.forward(states, positions, self._kind)

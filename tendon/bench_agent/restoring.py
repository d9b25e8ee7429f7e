# SPDX-License-Identifier: Apache-2.0
"""Stores a session in a file and brings it back; times that against computing it anew."""

from pathlib import Path
from statistics import median
from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import DEFAULT_POOL_BYTES
from cloud_backbone.kv_cache.policy import find_policy
from cloud_backbone.kv_state.fingerprint import fingerprint_of
from cloud_backbone.kv_state.gate import OPEN
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.restore import restore, Target
from cloud_backbone.kv_state.snapshot import load_snapshot, save_snapshot, take_snapshot
from cloud_backbone.kv_state.transformers_model import TransformersModel
from tendon.bench_agent.arm import Cost, timed
from tendon.bench_agent.script import Script
from tendon.bench_agent.size import Size
from tendon.bench_agent.stock import prefill
from tendon.bench_kv.subject import Subject

FILE = 'session.safetensors'
SPARE = 128
"""Tokens of room beyond those that are asked for: pages are whole, and positions take bytes."""


class Keeper:
    """Keeps one session of a model in a folder.

    Args:
        model: of transformers; its fingerprint is taken here, as when a service starts.
        folder: where the file is written.
        tokens: that a state reserves room for, so that its pages lie side by side.
    """

    def __init__(self, model: Any, folder: Path, tokens: int) -> None:
        policy = find_policy('full')
        self.model = TransformersModel(model)
        self._path = folder / FILE
        self._budget_bytes = bytes_per_token(model) * (tokens + SPARE)
        self._target = Target(
            self.model, BlockPool(DEFAULT_POOL_BYTES), policy, fingerprint_of(model, policy)
        )

    def new_state(self) -> KVState:
        """Return an empty state; it allows every edit."""
        return KVState(
            self.model, self._target.pool, budget_bytes=self._budget_bytes, gate=OPEN
        )

    def store(self, state: KVState) -> int:
        """Write a state; return the bytes of the file [B]."""
        return save_snapshot(self._path, take_snapshot(state, self._target.fingerprint))

    def bring_back(self) -> KVState:
        """Read the state that was stored; every byte of it is checked.

        Raises:
            StateError: it cannot be used as it is.
        """
        state = restore(load_snapshot(self._path), self._target).state
        state.gate = OPEN
        return state


def bytes_per_token(model: Any) -> int:
    """Return the bytes of keys and values of one token in all layers [B]."""
    config: Any = model.config.get_text_config(decoder=True)
    head_dim = getattr(config, 'head_dim', None) or (
        config.hidden_size // config.num_attention_heads
    )
    width = next(model.parameters()).element_size()
    return int(2 * config.num_hidden_layers * config.num_key_value_heads * head_dim * width)


def restore_over_prefill(
    subject: Subject, size: Size, seed: int, folder: Path
) -> tuple[float, int]:
    """Return time to the next token by restoring over that by computing, and the file's bytes.

    Both take turns; medians. The file was just written, so that it is read from memory.
    """
    keeper = Keeper(subject.model, folder, size.stored)
    tokens = _text(subject, size, seed)
    state = keeper.new_state()
    state.append('history', tokens)
    state.next_logits()
    nbytes = keeper.store(state)
    state.close()
    restored, computed = list[float](), list[float]()
    for _ in range(size.rounds):
        cost = Cost()
        with timed(cost):
            state = keeper.bring_back()
            state.next_logits().argmax()
        restored.append(cost.cpu_s)
        state.close()
        cost = Cost()
        with timed(cost):
            prefill(subject.model, tokens).argmax()
        computed.append(cost.cpu_s)
    return round(median(restored) / median(computed), 5), nbytes


def _text(subject: Subject, size: Size, seed: int) -> list[int]:
    """Return as many tokens of scenes as are stored."""
    tokens = list[int]()
    for turn in Script(subject.encode, size, seed).turns():
        tokens += turn.scene
        if len(tokens) >= size.stored:
            break
    return tokens[:size.stored]

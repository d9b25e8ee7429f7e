# SPDX-License-Identifier: Apache-2.0
"""Promises of a restore beside those of snapshots: it is exact, and costs a small part."""

from pathlib import Path
import time
from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.policy import find_policy
from cloud_backbone.kv_state.fingerprint import fingerprint_of
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.restore import restore, Target
from cloud_backbone.kv_state.segment import SegmentImage
from cloud_backbone.kv_state.snapshot import load_snapshot, save_snapshot, take_snapshot
from cloud_backbone.kv_state.transformers_model import TransformersModel
from cloud_backbone.model.checkpoint_files import load_model
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.fakes.tiny_models import make_family, text

TOKENS = 2048
SHARE = 0.05
TRIES = 3


def shipped(root: Path) -> Any:
    """Return the model that comes with the repository."""
    return load_model(root / 'cloud_backbone' / 'checkpoints' / 'tabletop', 'cpu')


def like_smollm2(root: Path) -> Any:
    """Return a random model whose layers are those of SmolLM2-135M, but only five of them."""
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(
        hidden_size=576, intermediate_size=1536, num_hidden_layers=5, num_attention_heads=9,
        num_key_value_heads=3, vocab_size=1024, max_position_embeddings=8192,
    )).eval()


@pytest.mark.parametrize('name', ['shipped', 'qwen-image'])
def test_restored_state_writes_what_a_full_computation_writes(
    root: Path, tmp_path: Path, name: str
) -> None:
    """Of the shipped model and one with three position axes: the same 64 tokens, logits alike."""
    family = make_family('qwen-image')
    model = shipped(root) if name == 'shipped' else family.model
    start = {} if name == 'shipped' else dict(family.start)
    places = start.pop('input_ids')[0].tolist() if start else []
    start.pop('mm_token_type_ids', None)
    image = SegmentImage('ef' * 32, start) if start else None
    states, policy = TransformersModel(model), find_policy('full')
    goal = text(40, 1)[0].clamp(min=10).tolist()  # below are tokens that stand for images
    scene = [*places, *text(9, 2)[0].clamp(min=10).tolist()]
    state = KVState(states, BlockPool(1 << 26), policy)
    for piece in (goal[:7], goal[7:]):
        state.append('goal', piece)
    state.append('scene', scene, epoch=1, image=image)
    fingerprint = fingerprint_of(model, policy, weights='known')
    path = tmp_path / 'state.safetensors'
    save_snapshot(path, take_snapshot(state, fingerprint))
    target = Target(states, BlockPool(1 << 26), policy, fingerprint)
    back = restore(load_snapshot(path), target).state
    whole = KVState(states, BlockPool(1 << 26), policy)
    whole.append('goal', goal)
    whole.append('scene', scene, epoch=1, image=image)
    torch.testing.assert_close(back.next_logits(), whole.next_logits(), rtol=1e-4, atol=1e-4)
    assert back.greedy(64) == whole.greedy(64) == state.greedy(64)


@pytest.mark.slow
@pytest.mark.parametrize('make', [shipped, like_smollm2])
def test_restore_is_far_cheaper_than_computing_anew(
    root: Path, tmp_path: Path, make: Any
) -> None:
    """At 2k tokens a restore, with every byte checked, takes under 5 % of a prefill.

    Both run on this one thread; time that others have the core for does not count.
    """
    model, policy = make(root), find_policy('full')
    states, fingerprint = TransformersModel(model), fingerprint_of(model, policy, weights='known')
    ids = torch.randint(10, 200, (TOKENS,), generator=torch.Generator().manual_seed(0)).tolist()
    state = KVState(states, BlockPool(1 << 30), policy)
    state.append('history', ids[:64])  # what the first forward sets up does not count
    state.close()
    began = time.thread_time()
    state.append('history', ids)
    prefill_s = time.thread_time() - began
    path = tmp_path / 'state.safetensors'
    save_snapshot(path, take_snapshot(state, fingerprint))
    restores_s = []
    for _ in range(TRIES):
        target = Target(states, BlockPool(1 << 30), policy, fingerprint)
        began = time.thread_time()
        back = restore(load_snapshot(path), target).state
        restores_s.append(time.thread_time() - began)
        assert torch.equal(back.next_logits(), state.next_logits())
        back.close()
    assert min(restores_s) < SHARE * prefill_s, (restores_s, prefill_s)

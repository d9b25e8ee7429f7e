# SPDX-License-Identifier: Apache-2.0
"""Promises of operations: an edit that was plain words does what the edit does."""

import json
from typing import Any

from cloud_backbone.kv_cache.hook import attach
from cloud_backbone.kv_state.errors import LayoutError
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.operation import Operation
from cloud_backbone.kv_state.replacing import RECOMPUTE
from cloud_backbone.kv_state.transformers_model import TransformersModel
import pytest
import torch

from tests.fakes.tiny_models import make_family, text

A, B, C = (text(7, seed)[0].tolist() for seed in range(3))


def state() -> KVState:
    """Return a state of three segments."""
    family = make_family('llama')
    attach(family.model)
    made = KVState(TransformersModel(family.model))
    for name, tokens in (('goal', A), ('history', B), ('scene', C)):
        made.append(name, tokens, epoch=1 if name == 'scene' else None)
    return made


@pytest.mark.parametrize(('do', 'words', 'same'), [
    ('append', {'name': 'scratch', 'tokens': A, 'epoch': 2},
     lambda one: one.append('scratch', A, epoch=2)),
    ('commit_step', {'history': A, 'scene': B, 'epoch': 2},
     lambda one: one.commit_step(A, B, epoch=2)),
    ('replace', {'name': 'history', 'tokens': A},
     lambda one: one.replace('history', A, RECOMPUTE)),
    ('drop', {'name': 'history', 'mode': ['recompute', 0]}, lambda one: one.drop('history')),
    ('move', {'name': 'history', 'index': 0}, lambda one: one.move('history', 0)),
    ('repair', {}, lambda one: one.repair()),
    ('rehydrate', {}, lambda one: one.rehydrate()),
])
def test_words_do_what_the_edit_does(do: str, words: dict[str, Any], same: Any) -> None:
    """Through JSON and back, the state and the receipt are those of the call itself."""
    mine, other = state(), state()
    receipt = Operation(do, json.loads(json.dumps(words))).apply(mine)
    wanted = same(other)
    assert mine.segments == other.segments
    assert mine.certificate() == other.certificate()
    assert (receipt.tokens_computed, receipt.prefix_hash) == (
        wanted.tokens_computed, wanted.prefix_hash
    )
    assert torch.equal(mine.next_logits(), other.next_logits())


def test_crop_by_words() -> None:
    """A mark is two words."""
    mine = state()
    mark = mine.mark('scene')
    Operation('crop', {'tokens': mark.tokens, 'prefix_hash': mark.prefix_hash}).apply(mine)
    assert [one.name for one in mine.segments] == ['goal', 'history']


def test_unknown_operation_lists_the_known_ones() -> None:
    """A record of another version is not guessed at."""
    with pytest.raises(LayoutError, match="no operation 'fly'; known are append, crop"):
        Operation('fly')

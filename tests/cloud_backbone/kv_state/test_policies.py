# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from cloud_backbone.kv_cache.errors import BudgetError
from cloud_backbone.kv_cache.policy import policy_names
from cloud_backbone.kv_state.errors import LostHistory
from cloud_backbone.kv_state.exactness import Grade, NUMERIC
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.receipt import Mark
from cloud_backbone.kv_state.segment import chain_hash, first_tokens
import pytest

from tests.fakes.small_policies import small_policy
from tests.fakes.state_models import make_subject

BUDGET = 110_000
POLICIES = [name for name in policy_names() if '+' not in name or name.startswith('cake')]


@pytest.mark.parametrize('policy', POLICIES)
def test_every_policy(policy: str) -> None:
    """Under every policy a session takes steps, is edited, forked and computed anew."""
    subject = make_subject('llama')
    state = KVState(subject.model, policy=small_policy(policy), budget_bytes=BUDGET)
    state.append('system', subject.words(9, 0))
    state.append('goal', subject.words(7, 1))
    for number in range(4):
        tokens, image = subject.scene(number)
        receipt = state.commit_step(subject.words(20, number), tokens, epoch=number, image=image)
        assert receipt.tokens_computed == 20 + len(tokens)
        state.append('scratch', subject.words(6, 50 + number))
    lossy = policy != 'full'
    held = state.certificate().exactness
    assert held == NUMERIC if not lossy else held.grade >= Grade.NUMERIC
    child = state.fork(state.mark('scratch'))
    before = state.next_logits().clone()
    child.replace('goal', subject.words(8, 9))
    child.greedy(3)
    child.close()
    again = state.fork()
    assert (again.next_logits() - before).abs().max() < 1e-4
    again.close()
    state.drop('goal')
    assert state.rehydrate().tokens_computed == len(state)
    assert state.cache.get_seq_length() == len(state)
    assert state.stats().byte_count <= BUDGET
    assert state.verify().kl < (20 if lossy else 1e-6)


@pytest.mark.parametrize('policy', ['cake', 'sinks', 'h2o+int8'])
def test_crop_into_what_was_dropped(policy: str) -> None:
    """A segment that has lost tokens is cropped whole or not at all; the error names both ways."""
    subject = make_subject('llama')
    state = KVState(subject.model, policy=small_policy(policy), budget_bytes=40_000)
    state.append('goal', subject.words(9, 0))
    state.append('history', subject.words(150, 1))
    state.append('scene', subject.words(5, 2))
    inside = Mark(60, chain_hash(first_tokens(state.segments, 60)))
    before = state.mark()
    with pytest.raises(LostHistory, match='rehydrate') as lost:
        state.crop(inside)
    assert lost.value.min_pos == 159
    assert state.mark() == before
    assert state.crop(state.mark('scene')).exactness.grade is Grade.APPROXIMATE
    grade = state.crop(state.mark('history')).exactness.grade
    assert grade is (Grade.APPROXIMATE if 'int8' in policy else Grade.NUMERIC)


def test_budget_of_a_codec() -> None:
    """What a codec's budget cannot hold is refused, and the state is as it was."""
    subject = make_subject('llama')
    state = KVState(subject.model, policy=small_policy('int8'), budget_bytes=12_000)
    state.append('goal', subject.words(9, 0))
    before, logits = state.mark(), state.next_logits()
    with pytest.raises(BudgetError):
        state.append('history', subject.words(300, 1))
    assert state.mark() == before
    assert (state.next_logits() - logits).abs().max() < 1e-4
    state.append('history', subject.words(5, 1))

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_state.exactness import Grade
from cloud_backbone.kv_state.kv_state import KVState
import pytest

from tests.fakes.small_policies import small_policy
from tests.fakes.state_models import make_subject, Subject

STEPS = 200
ENTRY, THOUGHT = 5, 4


def first_step(subject: Subject, **options: object) -> KVState:
    state = KVState(subject.model, **options)  # type: ignore[arg-type]
    state.append('system', subject.words(9, 0))
    state.append('goal', subject.words(7, 1))
    return state


def step(state: KVState, subject: Subject, number: int) -> int:
    """Take one step; return how many tokens were computed."""
    tokens, image = subject.scene(number)
    receipt = state.commit_step(
        subject.words(ENTRY, 1000 + number), tokens, epoch=number, image=image
    )
    thought = state.append('scratch', subject.words(THOUGHT, 2000 + number))
    assert not receipt.reason + thought.reason
    return receipt.tokens_computed + thought.tokens_computed


@pytest.mark.parametrize('name', ['llama', 'gemma3', 'qwen-image'])
def test_steps_cost_the_same(name: str) -> None:
    """However long a session gets, a step computes its own tokens and keeps nothing else."""
    subject = make_subject(name)
    pool = BlockPool(1 << 27)
    state = first_step(subject, pool=pool)
    scene = len(subject.scene(0)[0])
    held = []
    for number in range(1, STEPS + 1):
        assert step(state, subject, number) == ENTRY + scene + THOUGHT
        held.append(state.stats().byte_count)
        assert len(state.body.held._checkpoints) <= len(state.segments) + 1
        assert len(state.body.rope.starts) <= 40
        assert len(state.body.taint.starts) <= 8
    tokens = len(state)
    assert tokens == 9 + 7 + STEPS * ENTRY + scene + THOUGHT
    per_token = (held[-1] - held[STEPS // 2]) / (STEPS / 2 * ENTRY)
    assert held[-1] < 2 * per_token * tokens + held[0]
    assert (state.certificate().freshest, state.certificate().stalest) == (STEPS, STEPS)
    exact, _ = subject.prefill(state.segments)
    assert (state.next_logits() - exact).abs().max() < 1e-4
    state.close()
    assert pool.used_bytes == 0


@pytest.mark.parametrize('policy', ['cake', 'snapkv', 'sinks', 'cake+squat4', 'h2o+int8'])
def test_bounded_by_a_budget(policy: str) -> None:
    """Under a budget a session goes on for ever in the same memory, and says what it has lost."""
    subject = make_subject('llama')
    budget = 60_000
    state = first_step(subject, policy=small_policy(policy), budget_bytes=budget)
    stable = len(state)
    for number in range(1, STEPS // 4 + 1):
        step(state, subject, number)
        assert state.stats().byte_count <= budget
    assert state.certificate().exactness.grade is Grade.APPROXIMATE
    assert state.certificate().exactness.kind == policy
    session = state.body.held.session
    assert session is not None
    assert all(row.holds(0, stable) for row in session.rows.values())
    assert not all(row.holds(0, len(state)) for row in session.rows.values())
    assert state.verify().kl > 0
    assert state.repair().tokens_computed == 0

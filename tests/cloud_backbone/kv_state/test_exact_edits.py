# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from cloud_backbone.kv_state.exactness import NUMERIC
from cloud_backbone.kv_state.kv_state import KVState
import pytest

from tests.fakes.state_models import make_subject, Subject, subject_names

NEXT = 64
"""Greedy tokens that must be the same."""


@pytest.fixture(params=subject_names())
def subject(request: pytest.FixtureRequest) -> Subject:
    return make_subject(request.param)


def started(subject: Subject) -> KVState:
    """Return a session in the middle of its first step."""
    state = KVState(subject.model)
    state.append('system', subject.words(9, 0))
    state.append('goal', subject.words(7, 1))
    state.append('history', subject.words(12, 2))
    tokens, image = subject.scene(0)
    state.append('scene', tokens, epoch=1, image=image)
    state.append('scratch', subject.words(8, 3))
    return state


def assert_close(state: KVState, subject: Subject) -> None:
    """Compare what comes next with the library, which computes all tokens at once."""
    logits, _ = subject.prefill(state.segments)
    assert (state.next_logits() - logits).abs().max() < 1e-4
    assert state.certificate().exactness == NUMERIC


def assert_exact(state: KVState, subject: Subject) -> None:
    """Compare all that comes next with the library."""
    assert_close(state, subject)
    expected = subject.greedy(state.segments, NEXT)
    assert state.fork().greedy(NEXT) == expected


def test_append(subject: Subject) -> None:
    """Tokens appended in chunks say what all of them at once say."""
    state = started(subject)
    for seed in range(3):
        receipt = state.append('scratch', subject.words(5, 10 + seed))
        assert receipt.tokens_computed == 5
    assert_exact(state, subject)


def test_long_append() -> None:
    """More tokens than go through the model at once are appended in batches."""
    subject = make_subject('llama')
    state = KVState(subject.model)
    assert state.append('history', subject.words(1100, 0)).tokens_computed == 1100
    assert_close(state, subject)


def test_crop(subject: Subject) -> None:
    """What was cropped away leaves no trace."""
    state = started(subject)
    mark = state.mark('scratch')
    state.append('scratch', subject.words(30, 4))
    assert state.crop(mark).tokens_computed == 0
    assert state.mark() == mark
    state.append('scratch', subject.words(6, 5))
    assert_exact(state, subject)


def test_commit_step(subject: Subject) -> None:
    """A step costs its own tokens and leaves the state as if all had been computed at once."""
    state = started(subject)
    for step in range(3):
        tokens, image = subject.scene(1 + step)
        receipt = state.commit_step(
            subject.words(6, 20 + step), tokens, epoch=2 + step, image=image
        )
        assert receipt.tokens_computed == 6 + len(tokens)
        state.append('scratch', subject.words(7, 30 + step))
    assert_exact(state, subject)
    assert state.certificate().freshest == state.certificate().stalest == 4


def test_fork(subject: Subject) -> None:
    """A fork says the same as its parent and never changes it."""
    state = started(subject)
    before = state.next_logits().clone()
    child = state.fork(state.mark('scene'))
    child.append('history', subject.words(20, 6))
    tokens, image = subject.scene(2)
    child.append('scene', tokens, epoch=2, image=image)
    assert_exact(child, subject)
    child.greedy(4)
    child.close()
    again = state.fork()
    again.body.logits = None
    assert (again.next_logits() - before).abs().max() < 1e-5
    assert_close(state, subject)


def test_promote(subject: Subject) -> None:
    """A promoted fork is the session from then on, and its parent's pages are free."""
    state = started(subject)
    child = state.fork(state.mark('scratch'))
    child.append('scratch', subject.words(9, 7))
    expected = child.mark()
    receipt = state.promote(child)
    assert state.mark() == expected
    assert receipt.exactness == NUMERIC
    assert len(child) == 0
    assert_exact(state, subject)


def test_replace(subject: Subject) -> None:
    """Replacing in the middle computes all that stands behind."""
    state = started(subject)
    behind = sum(len(one.tokens) for one in state.segments[2:])
    receipt = state.replace('goal', subject.words(10, 8))
    assert receipt.tokens_computed >= 10 + behind
    assert_exact(state, subject)


def test_replace_scene(subject: Subject) -> None:
    """A new image takes the place of the old one, whatever stands behind it."""
    state = started(subject)
    tokens, image = subject.scene(1)
    state.replace('scene', tokens, epoch=2, image=image)
    assert_exact(state, subject)
    assert state.certificate().stalest == 2


def test_drop_and_move(subject: Subject) -> None:
    """Segments can be taken out and put elsewhere."""
    state = started(subject)
    state.move('goal', 2)
    assert [one.name for one in state.segments][1:3] == ['history', 'goal']
    assert_close(state, subject)
    state.drop('goal')
    assert [one.name for one in state.segments] == ['system', 'history', 'scene', 'scratch']
    assert_exact(state, subject)


def test_rehydrate(subject: Subject) -> None:
    """A state whose cache is gone comes back from its tokens."""
    state = started(subject)
    state.body.held.close()
    receipt = state.append('scratch', subject.words(3, 9))
    assert receipt.tokens_computed == len(state)
    assert 'closed' in receipt.reason
    assert_close(state, subject)
    assert state.rehydrate().tokens_computed == len(state)
    assert_exact(state, subject)


@pytest.mark.parametrize('name', ['llama', 'qwen-image', 'checkpoint'])
@pytest.mark.parametrize('distance', [1, 100])
def test_shift(name: str, distance: int) -> None:
    """All tokens moved by the same distance say what they said before."""
    subject = make_subject(name)
    state = started(subject)
    expected = subject.greedy(state.segments, NEXT)
    receipt = state.shift(distance)
    assert receipt.tokens_computed == 0
    state.append('scratch', expected[:1])
    logits, _ = subject.prefill(state.segments)
    assert (state.next_logits() - logits).abs().max() < 1e-4
    assert state.greedy(NEXT - 1) == expected[1:]
    state.shift(-distance)
    assert state.body.next_spot(len(state)) == started(subject).body.next_spot(
        len(started(subject))
    ) + NEXT

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from cloud_backbone.kv_state.errors import ApproxRefused
from cloud_backbone.kv_state.exactness import Grade
from cloud_backbone.kv_state.gate import CLOSED, OPEN
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.replacing import STALE
import pytest
import torch

from tests.fakes.state_models import make_subject, Subject

HEAD, OLD, TAIL, THOUGHT = 12, 5, 9, 6
CHANGES = {'longer': 8, 'as long': 5, 'shorter': 2, 'gone': 0}
"""What comes in the place of the old middle, in tokens."""


@pytest.fixture(scope='module')
def subject() -> Subject:
    return make_subject('llama')


def started(subject: Subject) -> KVState:
    """Return a session whose history has a middle that will change."""
    state = KVState(subject.model, gate=OPEN)
    state.append('system', subject.words(9, 0))
    state.append('history', history(subject, subject.words(OLD, 2)))
    state.append('scratch', subject.words(THOUGHT, 4))
    return state


def history(subject: Subject, middle: list[int]) -> list[int]:
    return [*subject.words(HEAD, 1), *middle, *subject.words(TAIL, 3)]


def changed(subject: Subject, tokens: int) -> list[int]:
    """Return a middle whose first and last tokens are others than the old ones."""
    old = subject.words(OLD, 2)
    middle = subject.words(tokens, 7)
    for place in (0, -1) if tokens else ():
        behind = old[place] if tokens > 1 else old[0]
        middle[place] = next(one for one in subject.words(30, 8) if one not in (
            behind, subject.words(TAIL, 3)[0], subject.words(HEAD, 1)[-1], *old
        ))
    return middle


@pytest.mark.parametrize('tokens', CHANGES.values(), ids=CHANGES)
def test_stale_edit_computes_the_change_alone(subject: Subject, tokens: int) -> None:
    """What stands behind it in the same segment is kept and marked; repair makes it exact."""
    state = started(subject)
    told = history(subject, changed(subject, tokens))

    receipt = state.replace('history', told, STALE)

    assert receipt.tokens_computed == tokens
    assert receipt.exactness.grade is Grade.APPROXIMATE
    assert [one.name for one in state.segments] == ['system', 'history', 'scratch']
    assert state.segments[1].tokens == tuple(told)
    state.repair()
    fresh = KVState(subject.model)
    for segment in state.segments:
        fresh.append(segment.name, segment.tokens)
    torch.testing.assert_close(state.next_logits(), fresh.next_logits(), atol=1e-4, rtol=0)
    assert state.mark() == fresh.mark()


@pytest.mark.parametrize('tokens', CHANGES.values(), ids=CHANGES)
def test_exact_edit_computes_from_the_change_on(subject: Subject, tokens: int) -> None:
    """What stands before it in the same segment is reused, and the answer is that of a prefill."""
    state = started(subject)
    told = history(subject, changed(subject, tokens))

    receipt = state.replace('history', told)

    assert receipt.exactness.exact
    assert receipt.tokens_computed == tokens + TAIL + THOUGHT
    fresh = KVState(subject.model)
    for segment in state.segments:
        fresh.append(segment.name, segment.tokens)
    torch.testing.assert_close(state.next_logits(), fresh.next_logits(), atol=1e-4, rtol=0)


def test_same_words_of_another_observation_are_not_kept(subject: Subject) -> None:
    """A scene that begins alike shows something else: all of it is computed."""
    state = started(subject)
    state.crop(state.mark('scratch'))
    state.append('scene', subject.words(8, 5), epoch=1)

    receipt = state.replace('scene', [*subject.words(8, 5), 3], epoch=2)

    assert receipt.tokens_computed == 9
    assert state.certificate().stalest == 2


def test_gate_sees_what_is_kept_within_a_segment(subject: Subject) -> None:
    """Even the last segment cannot be edited stale where nothing approximate is allowed."""
    state = started(subject)
    state.crop(state.mark('scratch'))
    state.gate = CLOSED
    before = state.mark()

    with pytest.raises(ApproxRefused):
        state.replace('history', history(subject, changed(subject, 4)), STALE)

    assert state.mark() == before


def test_nothing_is_computed_for_what_is_there(subject: Subject) -> None:
    """The same tokens again change nothing."""
    state = started(subject)
    before = state.mark()

    assert state.replace('history', history(subject, subject.words(OLD, 2))).tokens_computed == 0
    assert state.mark() == before

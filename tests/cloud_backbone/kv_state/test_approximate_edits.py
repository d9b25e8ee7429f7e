# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable

from cloud_backbone.kv_state.errors import ApproxRefused, LayoutError, UnsupportedMove
from cloud_backbone.kv_state.exactness import approximate, Grade, NUMERIC
from cloud_backbone.kv_state.gate import OPEN
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.receipt import Receipt
from cloud_backbone.kv_state.replacing import ERRATUM, Mode, partial, STALE
import pytest
import torch

from tests.fakes.state_models import make_subject, Subject

SUBJECTS = ['llama', 'qwen-image', 'checkpoint']
Act = Callable[[KVState, Subject, Mode], Receipt]


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Subject:
    return make_subject(request.param)


def started(subject: Subject) -> KVState:
    """Return a session whose scene has thoughts behind it."""
    state = KVState(subject.model, gate=OPEN)
    state.append('system', subject.words(9, 0))
    state.append('goal', subject.words(7, 1))
    state.append('history', subject.words(12, 2))
    tokens, image = subject.scene(0)
    state.append('scene', tokens, epoch=1, image=image)
    state.append('scratch', subject.words(14, 3))
    return state


def replace_scene(state: KVState, subject: Subject, mode: Mode) -> Receipt:
    tokens, image = subject.scene(1)
    return state.replace('scene', [*tokens, *subject.words(5, 9)], mode, epoch=2, image=image)


def drop_goal(state: KVState, subject: Subject, mode: Mode) -> Receipt:
    return state.drop('goal', mode)


def move_scene(state: KVState, subject: Subject, mode: Mode) -> Receipt:
    return state.move('scene', 1, mode)


ACTS = [replace_scene, drop_goal, move_scene]
MODES = [STALE, partial(3)]


@pytest.mark.parametrize('mode', MODES, ids=lambda mode: mode.kind)
@pytest.mark.parametrize('act', ACTS)
def test_marked_measured_repaired(subject: Subject, act: Act, mode: Mode) -> None:
    """An approximate edit is marked; verify measures it, and repair makes it exact."""
    state = started(subject)
    receipt = act(state, subject, mode)
    assert receipt.exactness.grade is Grade.APPROXIMATE
    assert mode.kind in receipt.exactness.kind
    new = len(state.segments[3].tokens) if act is replace_scene else 0
    assert receipt.tokens_computed == new + mode.fresh
    assert state.append('scratch', subject.words(2, 5)).exactness.grade is Grade.APPROXIMATE
    exact, _ = subject.prefill(state.segments)
    off = (state.next_logits() - exact).abs().max()
    found = state.verify()
    assert found.max_abs_dlogit == pytest.approx(float(off), rel=1e-2)
    assert state.certificate().exactness == approximate(receipt.exactness.kind, found.kl)
    assert off > 1e-4
    repaired = state.repair()
    assert repaired.exactness == NUMERIC
    assert 0 < repaired.tokens_computed < len(state)
    assert (state.next_logits() - exact).abs().max() < 1e-4
    assert state.verify().kl < 1e-6
    assert state.repair().tokens_computed == 0


@pytest.mark.parametrize('act', ACTS)
def test_first_layer_is_exact(subject: Subject, act: Act) -> None:
    """In the first layer, where no token has seen another, a splice is what a prefill gives."""
    state = started(subject)
    act(state, subject, STALE)
    again = KVState(subject.model)
    again.body.segments = state.segments
    again.append('scratch', subject.words(1, 6))
    state.append('scratch', subject.words(1, 6))
    spliced, prefilled = (one.body.held.lift(0, len(state)) for one in (state, again))
    for mine, other in zip(spliced[0], prefilled[0], strict=True):
        torch.testing.assert_close(mine, other, atol=2e-5, rtol=1e-4)
    tokens = torch.arange(len(state))
    assert torch.equal(*torch.broadcast_tensors(
        state.body.rope.of(tokens), again.body.rope.of(tokens)
    ))


def test_taint(subject: Subject) -> None:
    """After a stale splice the certificate names the old epoch as the stalest, then no more."""
    state = started(subject)
    receipt = replace_scene(state, subject, STALE)
    assert receipt.stale == {'scratch': 1}
    assert (state.certificate().freshest, state.certificate().stalest) == (2, 1)
    state.append('scratch', subject.words(3, 7))
    assert state.certificate().stalest == 1
    assert state.repair().stale == {}
    assert (state.certificate().freshest, state.certificate().stalest) == (2, 2)


def test_taint_stays_with_tokens(subject: Subject) -> None:
    """Tokens computed behind stale ones are stale too, until the stale ones are cropped."""
    state = started(subject)
    replace_scene(state, subject, STALE)
    mark = state.mark('scratch')
    state.append('scratch', subject.words(3, 7))
    state.crop(mark)
    assert state.certificate().stalest == 2
    assert state.certificate().exactness == NUMERIC


def test_partial_is_nearer_than_stale(subject: Subject) -> None:
    """Computing all of what stands behind is exact; computing some of it, in between."""
    kls = []
    for mode in (STALE, partial(13), partial(14)):
        state = started(subject)
        replace_scene(state, subject, mode)
        state.append('scratch', subject.words(1, 8))
        kls.append(state.verify().kl)
    assert kls[2] < 1e-6
    assert kls[1] < kls[0]


def test_erratum(subject: Subject) -> None:
    """An erratum leaves the old text in place: exact, of another text."""
    state = started(subject)
    before = len(state)
    receipt = state.replace('goal', subject.words(4, 8), ERRATUM)
    assert receipt.tokens_computed == 4
    assert len(state) == before + 4
    logits, _ = subject.prefill(state.segments)
    assert (state.next_logits() - logits).abs().max() < 1e-4
    with pytest.raises(LayoutError, match='ERRATUM'):
        state.drop('goal', ERRATUM)


def test_nothing_behind_is_exact(subject: Subject) -> None:
    """Where nothing stands behind a segment, every mode is exact and no gate is asked."""
    state = started(subject)
    state.crop(state.mark('scratch'))
    state.gate = KVState(subject.model).gate
    receipt = replace_scene(state, subject, STALE)
    assert receipt.exactness == NUMERIC


def test_closed_by_default(subject: Subject) -> None:
    """Without a calibration no approximate edit is allowed, and nothing is changed."""
    state = started(subject)
    state.gate = KVState(subject.model).gate
    before = state.mark()
    for act in ACTS:
        with pytest.raises(ApproxRefused, match='never measured'):
            act(state, subject, STALE)
    assert state.mark() == before


@pytest.mark.parametrize('policy', ['cake', 'int8', 'cake+squat4'])
def test_lossy_policies_move_nothing(policy: str) -> None:
    """What a policy may have dropped or encoded is not moved; the error names the remedy."""
    subject = make_subject('llama')
    state = KVState(subject.model, policy=policy, gate=OPEN)
    state.append('system', subject.words(9, 0))
    state.append('goal', subject.words(9, 1))
    before = state.mark()
    with pytest.raises(UnsupportedMove, match='RECOMPUTE'):
        state.drop('system', STALE)
    with pytest.raises(UnsupportedMove):
        state.shift(3)
    assert state.mark() == before
    assert [one.name for one in state.segments] == ['system', 'goal']


def test_windows_are_not_moved() -> None:
    """Once a sliding window has moved on, nothing is spliced; before, it is."""
    subject = make_subject('gemma3')
    state = KVState(subject.model, gate=OPEN)
    state.append('system', subject.words(4, 0))
    state.append('goal', subject.words(3, 1))
    state.append('history', subject.words(4, 2))
    assert state.drop('goal', STALE).tokens_computed == 0
    assert state.verify().kl < 1
    state.append('history', subject.words(30, 3))
    with pytest.raises(UnsupportedMove, match='window'):
        state.drop('system', STALE)

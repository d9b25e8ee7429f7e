# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from cloud_backbone.kv_state.calibration import calibrate, EditCase
from cloud_backbone.kv_state.errors import ApproxRefused, StateError
from cloud_backbone.kv_state.gate import Calibration, Effect, Gate
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.replacing import ERRATUM, partial, STALE
from cloud_backbone.kv_state.segment import Segment
import pytest

from tests.fakes.state_models import make_subject, Subject

BEHIND = 6
"""Tokens behind the segment that is edited."""


def cases(subject: Subject, count: int = 8) -> list[EditCase]:
    """Return sessions with a goal that changes under a history."""
    return [
        EditCase(
            (
                Segment('system', tuple(subject.words(5, seed))),
                Segment('goal', tuple(subject.words(5, 100 + seed))),
                Segment('history', tuple(subject.words(BEHIND, 200 + seed))),
            ),
            'goal', Segment('goal', tuple(subject.words(5, 300 + seed))),
            question=tuple(subject.words(3, 400 + seed)),
        )
        for seed in range(count)
    ]


def edited(subject: Subject, gate: Gate) -> KVState:
    """Return a session that can be edited under a gate."""
    state = KVState(subject.model, gate=gate)
    for segment in cases(subject, 1)[0].segments:
        state.append(segment.name, segment.tokens)
    return state


def test_calibration_measures_each_kind() -> None:
    """A calibration knows each kind by itself; computing all that is behind is exact."""
    subject = make_subject('llama')
    found = calibrate(subject.model, cases(subject), [STALE, partial(BEHIND), ERRATUM], decides=3)
    assert set(found.effects) == {'replace stale', f'replace partial({BEHIND})', 'replace erratum'}
    assert found.effects[f'replace partial({BEHIND})'].kl_p95 < 1e-6
    assert found.effects[f'replace partial({BEHIND})'].flip_rate == 0
    assert found.effects['replace stale'].kl_p95 > 1e-4
    assert found.effects['replace stale'].cases == 8
    assert found.effects['replace erratum'].flip_rate > 0
    moves = [EditCase(one.segments, one.name, index=0, question=one.question)
             for one in cases(subject, 2)]
    assert set(calibrate(subject.model, moves, [STALE, ERRATUM]).effects) == {'move stale'}


def test_above_its_limit() -> None:
    """A kind of edit above its limit is refused with what was measured; below, it is done."""
    subject = make_subject('llama')
    found = calibrate(subject.model, cases(subject), [STALE])
    measured = found.effects['replace stale'].kl_p95
    new = subject.words(5, 9)
    strict = edited(subject, Gate(found, kl_limit=measured / 2, flip_limit=1))
    before = strict.mark()
    with pytest.raises(ApproxRefused) as refused:
        strict.replace('goal', new, STALE)
    assert (refused.value.kind, refused.value.measured) == ('replace stale', measured)
    assert refused.value.limit == measured / 2
    assert strict.mark() == before
    lenient = edited(subject, Gate(found, kl_limit=measured * 2, flip_limit=1))
    assert lenient.replace('goal', new, STALE).tokens_computed == 5


@pytest.mark.parametrize(('effect', 'allowed'), [
    (Effect(100, 0.01, 0.0), True), (Effect(100, 0.01, 0.5), False),
    (Effect(100, float('nan'), 0.0), False),
])
def test_flips_count_too(effect: Effect, allowed: bool) -> None:
    """Decisions that come out otherwise refuse an edit, however small the divergence."""
    gate = Gate(Calibration('m', {'replace stale': effect}))
    if allowed:
        gate.check('m', 'replace', 'stale')
    else:
        with pytest.raises(ApproxRefused):
            gate.check('m', 'replace', 'stale')


def test_of_another_model() -> None:
    """What was measured with one model says nothing of another, nor one kind of another."""
    gate = Gate(Calibration('m', {'replace stale': Effect(100, 0.0, 0.0)}))
    for fingerprint, operation in (('other', 'replace'), ('m', 'drop')):
        with pytest.raises(ApproxRefused, match='never measured'):
            gate.check(fingerprint, operation, 'stale')


def test_of_a_model_without_a_name() -> None:
    """Two models that nobody named are not taken for one."""
    gate = Gate(Calibration('', {'replace stale': Effect(100, 0.0, 0.0)}))
    with pytest.raises(ApproxRefused, match='never measured'):
        gate.check('', 'replace', 'stale')


def test_written_and_read() -> None:
    """A calibration comes back from text as it was; other text is refused."""
    found = Calibration('m', {'replace stale': Effect(8, 0.25, 0.125)})
    assert Calibration.from_json(found.to_json()) == found
    for text in ('', '[]', '{"fingerprint": "m"}', '{"fingerprint": "m", "effects": {"a": 1}}'):
        with pytest.raises(StateError, match='no calibration'):
            Calibration.from_json(text)


def test_nothing_to_measure() -> None:
    """A calibration of nothing is an error, not a licence."""
    with pytest.raises(StateError, match='no case'):
        calibrate(make_subject('llama').model, [], [STALE])

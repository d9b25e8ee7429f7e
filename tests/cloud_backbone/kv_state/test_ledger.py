# SPDX-License-Identifier: Apache-2.0
"""Promises of the ledger: a step is taken once, however often and in whatever order it is sent."""

import json
import random

from cloud_backbone.kv_state.errors import StepConflict, StepGap
from cloud_backbone.kv_state.ledger import digest_of, ENTRIES, Ledger
import pytest


def test_same_step_again_gets_the_stored_answer() -> None:
    """A repeated id with the same content is found, with what was answered."""
    ledger = Ledger()
    assert ledger.look_up(0, 'a') is None
    ledger.take(0, 'a')
    assert ledger.look_up(0, 'a').reply is None  # type: ignore[union-attr]
    ledger.answer(0, 'yes')
    assert ledger.look_up(0, 'a').reply == 'yes'  # type: ignore[union-attr]
    assert ledger.expected == 1


def test_same_id_with_other_content_is_a_conflict() -> None:
    """The ledger does not choose between two contents of one id."""
    ledger = Ledger()
    ledger.take(0, 'a')
    with pytest.raises(StepConflict, match='step 0 was taken before, with another content'):
        ledger.look_up(0, 'b')
    with pytest.raises(StepConflict):
        ledger.take(0, 'a')


def test_missing_steps_are_asked_for() -> None:
    """A gap is an error that holds the id which is expected."""
    ledger = Ledger(expected=5)
    with pytest.raises(StepGap, match='step 7 came, 5 is next') as caught:
        ledger.take(7, 'a')
    assert caught.value.expected == 5
    assert len(ledger) == 0


def test_old_answers_are_let_go_but_not_their_steps() -> None:
    """Memory is bounded; a step whose answer is gone is still not taken again."""
    ledger = Ledger(replies=3)
    for step in range(10):
        ledger.take(step, str(step))
        ledger.answer(step, f'answer {step}')
    kept = [ledger.look_up(step, str(step)).reply for step in range(10)]  # type: ignore[union-attr]
    assert kept == [None] * 7 + ['answer 7', 'answer 8', 'answer 9']


def test_memory_is_bounded_however_many_steps_are_taken() -> None:
    """Very old steps are forgotten; one of them is refused, never taken again."""
    ledger = Ledger()
    for step in range(3 * ENTRIES):
        ledger.take(step, 'a')
        ledger.answer(step, 'yes')
    assert len(ledger) == ENTRIES
    assert len(ledger.state()['entries']) == ENTRIES
    with pytest.raises(StepConflict):
        ledger.look_up(5, 'a')


def test_ledger_survives_a_file() -> None:
    """What JSON keeps of a ledger is all of it."""
    ledger = Ledger(3)
    for step in (3, 4):
        ledger.take(step, str(step))
    ledger.answer(3, 'yes')
    back = Ledger.from_state(json.loads(json.dumps(ledger.state())))
    assert back.state() == ledger.state()
    assert back.expected == 5
    assert back.look_up(3, '3') == ledger.look_up(3, '3')


@pytest.mark.parametrize('seed', range(20))
def test_duplicates_and_disorder_take_each_step_once(seed: int) -> None:
    """Steps that are sent again and out of order are taken once each, in order."""
    random.seed(seed)
    ledger, taken = Ledger(), list[int]()
    while len(taken) < 30:
        step = random.randint(0, len(taken) + 2)
        try:
            if ledger.look_up(step, digest_of({'step': step})) is None:
                ledger.take(step, digest_of({'step': step}))
                taken.append(step)
        except StepGap as gap:
            assert gap.expected == len(taken)
    assert taken == list(range(30))


def test_digest_does_not_hang_on_the_order_of_keys() -> None:
    """The same content has the same digest, other content another."""
    assert digest_of({'a': 1, 'b': [2]}) == digest_of({'b': [2], 'a': 1})
    assert digest_of({'a': 1}) != digest_of({'a': 2})

# SPDX-License-Identifier: Apache-2.0
"""Promises to tokens that a caller pins: they stay, are paid for, and never silently go."""

from cloud_backbone.kv_cache import batch_attention
from cloud_backbone.kv_cache.errors import BudgetError, CacheError, EvictedError
from cloud_backbone.kv_cache.hook import attach
from cloud_backbone.kv_cache.kv_session import KVSession
import pytest

from tests.fakes.small_policies import small_cache
from tests.fakes.tensor_walk import owned_bytes
from tests.fakes.tiny_models import Family, make_family, text


@pytest.fixture(scope='module')
def llama() -> Family:
    """Return a tiny attached Llama of three layers."""
    family = make_family('llama')
    attach(family.model)
    return family


def holds(session: KVSession, first: int, end: int) -> bool:
    """Say whether every head of every layer holds positions [first, end)."""
    return all(
        any(int(p) == position for shelf in row.shelves for p in shelf.positions[head])
        for row in session.rows.values() for head in range(row.kv_heads)
        for position in range(first, end)
    )


@pytest.mark.parametrize('early', [True, False])
@pytest.mark.parametrize('policy', ['sinks', 'snapkv', 'cake', 'veda', 'h2o+int8', 'veda+int8'])
def test_pinned_tokens_stay(llama: Family, policy: str, early: bool) -> None:
    """Whatever comes later, also if they are pinned before the session has seen them."""
    cache = small_cache(llama, policy, 24)
    if early:
        cache.begin().pin(10, 14)
    llama(cache, input_ids=text(20))
    if not early:
        cache.begin().pin(10, 14)
    for step, tokens in enumerate((40, 1, 1, 30, 1, 5, 1)):
        llama(cache, input_ids=text(tokens, step))
        assert holds(cache.sessions[0], 10, 14)
    plain = small_cache(llama, policy, 24)
    for step, tokens in enumerate((20, 40, 1, 1, 30, 1)):
        llama(plain, input_ids=text(tokens, step))
    assert not holds(plain.sessions[0], 10, 14)


def test_pinning_what_is_gone_is_an_error(llama: Family) -> None:
    """Nobody believes that tokens are held which were dropped long ago."""
    cache = small_cache(llama, 'sinks', 24)
    llama(cache, input_ids=text(60))
    with pytest.raises(EvictedError, match='positions 20 to 24 are not all held'):
        cache.begin().pin(20, 24)


def test_pinning_more_than_fits_is_an_error(llama: Family) -> None:
    """The error comes with the pin, before anything is lost."""
    cache = small_cache(llama, 'snapkv', 24)
    llama(cache, input_ids=text(20))
    with pytest.raises(BudgetError):
        cache.begin().pin(0, 60)


@pytest.mark.parametrize(('first', 'end'), [(5, 5), (7, 3), (-1, 4)])
def test_span_must_hold_a_position(llama: Family, first: int, end: int) -> None:
    """Empty and negative spans are mistakes of the caller."""
    with pytest.raises(CacheError, match=f'cannot pin positions {first} to {end}'):
        small_cache(llama, 'snapkv', 24).begin().pin(first, end)


def test_pins_leave_the_shares_of_layers_alone(
    llama: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CAKE's budgets are those of the prompt, whether something is pinned or not."""
    wants = iter((1.0, 9.0, 3.0))
    monkeypatch.setattr(batch_attention, 'preference', lambda *args: next(wants))
    cache = small_cache(llama, 'cake', 24)
    llama(cache, input_ids=text(60))
    session = cache.sessions[0]
    before = [row.slots for row in session.rows.values()]
    assert len(set(before)) > 1
    session.pin(58, 59)
    for step in range(3):
        llama(cache, input_ids=text(1, step))
    assert [row.slots for row in session.rows.values()] == before


@pytest.mark.parametrize('policy', ['snapkv', 'cake+squat4', 'veda+int8'])
def test_pins_are_within_the_budget(llama: Family, policy: str) -> None:
    """What a pin takes is counted, and comes out of the budget."""
    cache = small_cache(llama, policy, budget_bytes=16_000)
    cache.begin().pin(0, 3)
    for step, tokens in enumerate((30, 1, 40, 1)):
        llama(cache, input_ids=text(tokens, step))
        session = cache.sessions[0]
        assert session.nbytes() == owned_bytes(session) <= 16_000
        if not step:
            session.pin(25, 28)

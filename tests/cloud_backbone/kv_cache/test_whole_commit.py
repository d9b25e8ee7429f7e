# SPDX-License-Identifier: Apache-2.0
"""Promises about what stays raw: nothing in sessions that fit between turns, else the ends."""

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import CompressedCache, tentative_cache
from cloud_backbone.kv_cache.hook import attach
import pytest
import torch

from tests.fakes.small_policies import small_policy
from tests.fakes.tensor_walk import owned_bytes
from tests.fakes.tiny_models import Family, make_family, text

POLICIES = ['int8', 'kivi4', 'squat4', 'snapkv+kivi4', 'cake+squat4', 'veda+int8', 'cake+int8']
BUDGET = 12_000


@pytest.fixture(scope='module')
def llama() -> Family:
    """Return a tiny attached Llama of three layers."""
    family = make_family('llama')
    attach(family.model)
    return family


def begun(llama: Family, name: str, budget: int | None = None) -> CompressedCache:
    """Return an empty cache whose tokens can be taken back until committed."""
    policy = small_policy(name, whole=True, recent=2)
    return tentative_cache(llama.model.config, BlockPool(1 << 24), policy, budget)


@pytest.mark.parametrize('name', POLICIES)
@pytest.mark.parametrize('tokens', [5, 16, 21])
def test_nothing_stays_raw(llama: Family, name: str, tokens: int) -> None:
    """After a commit every token is encoded, in part-filled blocks too, and found again."""
    cache = begun(llama, name)
    llama(cache, input_ids=text(tokens))
    session = cache.begin()
    session.commit()
    assert all(row.open.slots == 0 for row in session.rows.values())
    assert session.intact() == tokens
    exact = begun(llama, 'full')
    llama(exact, input_ids=text(tokens))
    near, right = (llama(each, input_ids=text(1, 5))[0, -1] for each in (cache, exact))
    assert torch.cosine_similarity(near, right, dim=0) > 0.95


@pytest.mark.parametrize('name', [name for name in POLICIES if '+' in name])
def test_budget_holds_after_every_commit(llama: Family, name: str) -> None:
    """Turn by turn, with tokens taken back and instructions kept, no tensor is beyond it."""
    cache = begun(llama, name, BUDGET)
    session = cache.begin()
    for turn in range(4):
        llama(cache, input_ids=text(40 + turn, turn))
        session.commit()
        assert session.nbytes() <= BUDGET
        llama(cache, input_ids=text(9, turn))
        cache.crop(-4)
        session.commit()
        assert owned_bytes(session) <= BUDGET
        assert len(session) == 45 + turn
        cache.crop(-(len(session)))
    assert session.intact() == 0


def test_block_with_something_pinned_stays(llama: Family) -> None:
    """Where the budget is one block a layer, later tokens do not push out what is pinned."""
    cache = begun(llama, 'cake+squat4', 12_000)
    session = cache.begin()
    llama(cache, input_ids=text(40))
    session.pin(10, 15)
    session.commit()
    llama(cache, input_ids=text(30, 1))
    session.commit()
    for row in session.rows.values():
        assert row.holds(10, 15)


def test_intact_ends_where_something_is_gone(llama: Family) -> None:
    """It counts tokens that every head of every layer has, and follows a crop."""
    cache = begun(llama, 'full')
    llama(cache, input_ids=text(20))
    session = cache.begin()
    assert session.intact() == 20
    doomed = torch.zeros_like(session.rows[1].open.positions, dtype=torch.bool)
    doomed[1, 7] = True
    session.rows[1].open.kill(doomed)
    assert session.intact() == 7
    cache.crop(-15)
    assert session.intact() == 5


@pytest.mark.parametrize('name', ['kivi4', 'squat2'])
def test_the_first_tokens_stay_raw_elsewhere(llama: Family, name: str) -> None:
    """Blocks hold neither the first nor the newest tokens, also after tokens were taken back."""
    policy = small_policy(name)
    cache = CompressedCache(llama.model.config, policy, pool=BlockPool(1 << 24))
    for tokens, back in ((30, 0), (9, -12), (20, -30), (25, 0)):
        llama(cache, input_ids=text(tokens))
        if back:
            cache.crop(back)
        for row in cache.sessions[0].rows.values():
            sealed, newest = row.tiers[0].positions, row.seen - policy.ring
            assert row.intact() == row.seen
            assert not ((sealed >= 0) & (sealed < policy.raw_sinks)).any()
            assert back or int(sealed.max()) < newest
    assert cache.sessions[0].rows[0].tiers[0].blocks

# SPDX-License-Identifier: Apache-2.0
"""Promises about bytes: all are counted, the budget is kept after every step, and it is used."""

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import CompressedCache
from cloud_backbone.kv_cache.errors import BudgetError
from cloud_backbone.kv_cache.hook import attach
from cloud_backbone.kv_cache.kv_session import KVSession
from cloud_backbone.kv_cache.policy import policy_names
import pytest
import torch

from tests.fakes.small_policies import small_cache, small_limit, small_policy
from tests.fakes.tensor_walk import owned_bytes, page_bytes
from tests.fakes.tiny_models import Family, make_family, text

TURNS = (300, 1, 30, 5, 1)
BUDGETS = (14_000, 23_456)
LIMITED = [name for name in policy_names() if small_limit(name)]
ROTARY = ['sinks', 'cake', 'veda+int8', 'cake+squat4', 'snapkv+squat2', 'h2o+kivi2', 'cake+tiers']
"""For a model whose rotary positions take bytes, too."""


@pytest.fixture(scope='module')
def llama() -> Family:
    """Return a tiny attached Llama of three layers."""
    family = make_family('llama')
    attach(family.model)
    return family


def run(family: Family, cache: CompressedCache, *turns: int) -> KVSession:
    """Feed random text; the session of the cache is returned."""
    for step, tokens in enumerate(turns):
        family(cache, input_ids=text(tokens, step))
    return cache.sessions[0]


def unused(session: KVSession) -> int:
    """Return the bytes that may lie idle: less than a block, and what waits for tokens [B]."""
    rows = session.rows.values()
    row = session.rows[session.layers[0]]
    if row.sealed is None:
        return row.open.block_bytes + sum(row.open.most_hole_bytes for row in rows)
    waiting = sum(row.open.block_bytes for row in rows if not row.open.blocks)
    if len(row.tiers) > 1:  # a layer cannot split a block among tiers
        return waiting + (len(rows) + 1) * row.sealed.block_bytes
    return waiting + row.sealed.block_bytes


def check_bytes(cache: CompressedCache, budget: int) -> None:
    """Compare what a session says it takes, what it takes, and what it may take."""
    session = cache.sessions[0]
    assert session.nbytes() == cache.nbytes() == owned_bytes(session)
    assert cache.pool.used_bytes == page_bytes(session)
    assert session.nbytes() <= budget


@pytest.mark.parametrize('policy', LIMITED)
def test_budget_is_met_exactly(llama: Family, policy: str) -> None:
    """After every step the real bytes are within the budget, and one more block would not be."""
    budget = BUDGETS[LIMITED.index(policy) % 2]
    cache = small_cache(llama, policy, budget_bytes=budget)
    for step, tokens in enumerate(TURNS):
        llama(cache, input_ids=text(tokens, step))
        check_bytes(cache, budget)
        session = cache.sessions[0]
        assert session.nbytes() + unused(session) > budget


@pytest.mark.parametrize('policy', ROTARY)
def test_rotary_positions_are_paid_for(policy: str) -> None:
    """Positions of an image, which the session keeps, are within the budget from the start."""
    family = make_family('qwen-image')
    attach(family.model)
    cache = small_cache(family, policy, budget_bytes=20_000)
    family(cache, **family.opening(60))
    check_bytes(cache, 20_000)
    for step, tokens in enumerate((1, 1, 20, 1, 5, 1)):
        family(cache, input_ids=text(tokens, step))
        check_bytes(cache, 20_000)


@pytest.mark.parametrize('policy', ['cake+squat4', 'snapkv+squat2', 'cake+kivi2'])
@pytest.mark.parametrize('turns', [(1, 60, 1), (4, 4, 4, 60, 1), (9, 60, 1)])
def test_budget_is_met_however_the_text_begins(
    llama: Family, policy: str, turns: tuple[int, ...]
) -> None:
    """A first step too short to learn from does not make room for what is learned later."""
    cache = small_cache(llama, policy, budget_bytes=16_000)
    for step, tokens in enumerate(turns):
        llama(cache, input_ids=text(tokens, step))
        assert cache.sessions[0].nbytes() <= 16_000


def test_full_policy_keeps_its_budget_or_says_so(llama: Family) -> None:
    """Without dropping, the pages are taken at once; the token too many is a typed error."""
    cache = small_cache(llama, 'full', budget_bytes=50_000)
    session = run(llama, cache, 20, 1, 1)
    check_bytes(cache, 50_000)
    assert session.nbytes() + 3 * session.rows[0].open.block_bytes > 50_000
    with pytest.raises(BudgetError, match='budget of 50000 bytes is too small for policy full'):
        run(llama, cache, 100)
    assert cache.pool.used_bytes == 0


@pytest.mark.parametrize('budget', [-5, 0, 100, 2_000])
@pytest.mark.parametrize('policy', ['full', 'cake', 'snapkv+kivi4', 'h2o+squat2'])
def test_budget_that_cannot_be_met_is_named(llama: Family, policy: str, budget: int) -> None:
    """Too few bytes for a block per layer are a typed error that tells how many are needed."""
    pool = BlockPool(1 << 20)
    with pytest.raises(BudgetError, match=f'{budget} bytes is too small for policy') as caught:
        run(llama, small_cache(llama, policy, budget_bytes=budget, pool=pool), 40)
    assert caught.value.given == budget
    assert caught.value.least > budget
    assert pool.used_bytes == 0
    if policy != 'full' and budget > 0:
        enough = small_cache(llama, policy, budget_bytes=caught.value.least)
        assert run(llama, enough, 40, 1).nbytes() <= caught.value.least


def test_layers_share_the_whole_budget_unevenly(llama: Family) -> None:
    """A pyramid gives the first layer the most, and nothing is lost by rounding."""
    session = run(llama, small_cache(llama, 'pyramid', 24), 150, 1)
    blocks = [row.open.blocks for row in session.rows.values()]
    assert sum(blocks) == 24 * 3 // 8
    assert blocks == sorted(blocks, reverse=True)
    assert blocks[0] > blocks[-1]


def test_codec_without_a_scorer_drops_nothing(llama: Family) -> None:
    """A codec alone fails when its budget is full, as the full policy does."""
    cache = small_cache(llama, 'kivi4', budget_bytes=16_000)
    with pytest.raises(BudgetError, match='too small for policy kivi4'):
        run(llama, cache, *TURNS)
    assert cache.pool.used_bytes == 0


def test_length_counts_what_was_dropped(llama: Family) -> None:
    """The logical length is that of the text, however little is held."""
    cache = small_cache(llama, 'cake+kivi2', 16)
    session = run(llama, cache, *TURNS)
    assert cache.get_seq_length() == len(session) == sum(TURNS)
    assert max(row.slots for row in session.rows.values()) < sum(TURNS)


def test_half_the_type_is_half_the_bytes(llama: Family) -> None:
    """Raw slots take the bytes of the model's own type."""
    model = make_family.__wrapped__('llama').model.to(torch.float16)
    attach(model)
    caches = [small_cache(llama, small_policy('snapkv')) for _ in range(2)]
    llama(caches[0], input_ids=text(32))
    llama(caches[1], model, input_ids=text(32))
    assert caches[0].pool.used_bytes == 2 * caches[1].pool.used_bytes

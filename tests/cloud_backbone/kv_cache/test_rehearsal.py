# SPDX-License-Identifier: Apache-2.0
"""Promises of the second reading and of the shares that follow from it."""

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import CompressedCache, tentative_cache
from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.hook import attach
from cloud_backbone.kv_cache.merit import merits
from cloud_backbone.kv_cache.rehearsal import rehearse
from cloud_backbone.kv_cache.replay import Replay
import pytest
import torch
from torch import Tensor

from tests.cloud_backbone.kv_cache.attention_rows import attention_rows, fresh, prompt
from tests.fakes.small_policies import small_policy
from tests.fakes.tiny_models import Family, make_family, text

TOKENS = 60


@pytest.fixture(scope='module')
def llama() -> Family:
    """Return a tiny attached Llama."""
    family = make_family('llama')
    attach(family.model)
    return family


def read(llama: Family, name: str, budget: int | None = None) -> CompressedCache:
    """Return a tentative cache that has read some tokens."""
    pool = BlockPool(1 << 24)
    cache = tentative_cache(llama.model.config, pool, small_policy(name), budget)
    llama(cache, input_ids=text(TOKENS))
    return cache


def rehearsed(llama: Family, cache: CompressedCache, chunk: int) -> None:
    """Read all tokens of a cache again."""
    tokens = text(TOKENS)[0].tolist()
    rehearse(cache, tokens, lambda twin, again: llama(twin, input_ids=torch.tensor([again])),
             chunk=chunk)


def states(cache: CompressedCache) -> Tensor:
    """Return the greatest weights (layers, kv_heads, tokens)."""
    rows = cache.begin().rows.values()
    return torch.stack([row.open.columns['most'][:, :TOKENS] for row in rows])


def test_score_is_the_greatest_weight_of_later_rows() -> None:
    """The equation of the text, heads of a group together, near rows left out."""
    positions, queries = prompt(2, 50, 40)
    attention = attention_rows(positions, queries)
    scorer = Replay(near=8)
    found = scorer.observe(fresh(scorer, positions), attention, positions, queries)['most']
    for slot in (0, 9, 30, 41):
        later = queries >= slot + 8
        wanted = attention[:, :, later, slot].amax((1, 2))
        torch.testing.assert_close(found[:, slot].float(), wanted, rtol=0.01, atol=0)
    assert not found[:, 43:].any()


@pytest.mark.parametrize('chunk', [7, 60, 100])
def test_a_rehearsal_leaves_nothing_but_scores(llama: Family, chunk: int) -> None:
    """Tokens, positions and pages are as before, and the next token is predicted as before."""
    cache, plain = read(llama, 'replay+squat4'), read(llama, 'replay+squat4')
    used = cache.pool.used_bytes
    first = states(cache).clone()
    rehearsed(llama, cache, chunk)
    assert cache.pool.used_bytes == used
    assert len(cache.begin()) == TOKENS
    assert not torch.equal(states(cache), first)
    answers = [llama(each, input_ids=text(1, 5)) for each in (cache, plain)]
    torch.testing.assert_close(*answers)


def test_chunks_add_up(llama: Family) -> None:
    """Each chunk counts for all tokens: the greatest weight of any of them stays."""
    whole, parts = read(llama, 'replay'), read(llama, 'replay')
    rehearsed(llama, parts, 20)
    once = []
    for first in range(0, TOKENS, 20):
        alone = read(llama, 'replay')
        tokens = text(TOKENS)[0, first : first + 20].tolist()
        rehearse(alone, text(TOKENS)[0].tolist(),
                 lambda twin, _, again=tokens: llama(twin, input_ids=torch.tensor([again])))
        once.append(states(alone))
    torch.testing.assert_close(states(parts), torch.stack(once).amax(0))
    assert not torch.equal(states(whole), states(parts))


def test_what_is_gone_cannot_be_rehearsed(llama: Family) -> None:
    """A session that has dropped tokens, or never read them, refuses in words."""
    cache = read(llama, 'replay')
    with pytest.raises(CacheError, match='tentative'):
        rehearse(cache, list(range(TOKENS + 1)), lambda *_: None)
    cache.begin().tentative = False
    with pytest.raises(CacheError, match='tentative'):
        rehearse(cache, [1], lambda *_: None)


def test_a_failed_rehearsal_gives_its_pages_back(llama: Family) -> None:
    """Whatever ends it, the cache is as it was but for its scores."""
    cache = read(llama, 'replay')
    used = cache.pool.used_bytes

    def fail(twin: CompressedCache, again: object) -> None:
        llama(twin, input_ids=text(9))
        raise RuntimeError('no more')

    with pytest.raises(RuntimeError, match='no more'):
        rehearse(cache, text(TOKENS)[0].tolist(), fail)
    assert cache.pool.used_bytes == used


def test_layers_share_by_how_many_of_their_tokens_are_best(llama: Family) -> None:
    """A layer whose tokens weigh more keeps more; the sum is what there was to share."""
    cache = read(llama, 'replay')
    rows = cache.begin().rows
    for layer, row in rows.items():
        row.open.columns['most'][:] = 0.1 * (layer + 1) * torch.rand(row.open.slots)
    wants = merits(rows, 90)
    assert list(wants) == list(rows)
    assert sum(wants.values()) == pytest.approx(90, abs=1)
    assert list(wants.values()) == sorted(wants.values())


@pytest.mark.parametrize(('name', 'budget'), [
    ('replay', 32_000), ('replay+int8', 16_000), ('replay+squat4', 16_000),
    ('replay+tiers', 16_000),
])
def test_the_budget_holds_with_unlike_layers_and_pins(
    llama: Family, name: str, budget: int
) -> None:
    """After each commit all tensors fit, and what is pinned is there in every layer."""
    cache = read(llama, name, budget)
    rehearsed(llama, cache, 100)
    session = cache.begin()
    session.pin(10, 18)
    for turn in range(3):
        llama(cache, input_ids=text(30, turn))
        for layer, row in session.rows.items():
            row.open.columns['most'][:] *= 10.0 ** -layer
        session.commit()
        assert session.nbytes() <= budget
        assert all(row.holds(10, 18) for row in session.rows.values())
    assert len({row.slots for row in session.rows.values()}) > 1

# SPDX-License-Identifier: Apache-2.0
"""Promises to sessions that share a pool: nothing of one is ever seen in another."""

from collections.abc import Iterator
from contextlib import contextmanager
import gc
import threading
from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import CompressedCache
from cloud_backbone.kv_cache.errors import CacheError, NonFiniteError, PoolFullError
from cloud_backbone.kv_cache.hook import attach, detach
from cloud_backbone.kv_cache.kv_store import KVStore
from cloud_backbone.kv_cache.policy import policy_names
import pytest
import torch
from torch import Tensor

from tests.fakes.masked_attention import Oracle
from tests.fakes.small_policies import small_cache, small_limit, small_policy
from tests.fakes.tensor_walk import page_bytes
from tests.fakes.tiny_models import Family, make_family, text

FIRST = (40, 1, 1)
LEFT, RIGHT = (20, 1, 9), (12, 1, 20)
RAW = [name for name in policy_names()
       if name != 'full' and not small_policy(name).codecs(0, 2, 16)]
BRANCHED = ['full', *RAW, 'squat4', 'sinks+int8', 'cake+squat4', 'h2o+kivi2', 'veda+squat2',
            'cake+tiers']


@pytest.fixture(scope='module')
def llama() -> Family:
    """Return a tiny attached Llama of three layers."""
    family = make_family('llama')
    attach(family.model)
    return family


def start(llama: Family, policy: str, **options: Any) -> CompressedCache:
    """Return an empty cache whose limit bites, unless the policy takes none."""
    return small_cache(llama, policy, small_limit(policy), **options)


def feed(llama: Family, cache: CompressedCache, turns: tuple[int, ...], seed: int) -> list[Tensor]:
    """Return the logits of some steps of random text."""
    return [
        llama(cache, input_ids=text(tokens, 100 * seed + step))
        for step, tokens in enumerate(turns)
    ]


def branch(cache: CompressedCache) -> CompressedCache:
    """Return a cache that goes on from the same past."""
    return CompressedCache(
        cache._config, cache.policy, pool=cache.pool, sessions=[cache.sessions[0].fork()]
    )


def assert_equal(got: list[Tensor], wanted: list[Tensor]) -> None:
    """Compare the logits of all steps, bit for bit."""
    for one, other in zip(got, wanted, strict=True):
        assert torch.equal(one, other)


@contextmanager
def broken_keys(llama: Family, layer: int) -> Iterator[None]:
    """Let a layer compute NaN for a while."""
    weight = llama.model.model.layers[layer].self_attn.k_proj.weight
    whole = weight.data.clone()
    weight.data[0, 0] = torch.nan
    try:
        yield
    finally:
        weight.data.copy_(whole)


@pytest.mark.parametrize('policy', ['full', 'veda', 'cake+squat4'])
def test_threads_do_not_talk_to_each_other(
    llama: Family, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions that run at once in one pool compute what they compute alone, bit for bit."""
    pool, meeting, update = BlockPool(1 << 24), threading.Barrier(3, timeout=20), KVStore.update
    caches = [start(llama, policy, pool=pool) for _ in range(3)]
    got: list[list[Tensor]] = [[] for _ in caches]

    def handed_on(store: KVStore, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        states = update(store, *args, **kwargs)
        meeting.wait()  # all have handed their keys on before any attends
        return states

    def work(index: int) -> None:
        got[index] += feed(llama, caches[index], FIRST + LEFT, index)

    with monkeypatch.context() as patch:
        patch.setattr(KVStore, 'update', handed_on)
        threads = [threading.Thread(target=work, args=(index,)) for index in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for index, logits in enumerate(got):
        assert_equal(logits, feed(llama, start(llama, policy), FIRST + LEFT, index))
    assert pool.used_bytes == sum(page_bytes(cache.sessions[0]) for cache in caches)


@pytest.mark.parametrize('layer', [0, 1, 2])
@pytest.mark.parametrize('policy', ['full', 'cake', 'cake+squat4'])
def test_session_with_nan_fails_alone(llama: Family, policy: str, layer: int) -> None:
    """NaN in any layer is a typed error that frees the session's pages and harms no other."""
    pool = BlockPool(1 << 24)
    good, bad = start(llama, policy, pool=pool), start(llama, policy, pool=pool)
    feed(llama, good, FIRST, 1)
    used = pool.used_bytes
    feed(llama, bad, FIRST, 2)
    with broken_keys(llama, layer), pytest.raises(NonFiniteError, match=f'layer {layer} hold NaN'):
        llama(bad, input_ids=text(1))
    assert pool.used_bytes == used
    assert_equal(
        feed(llama, good, LEFT, 3), feed_after(llama, start(llama, policy), FIRST, LEFT, 1, 3)
    )


def test_failed_cache_begins_anew(llama: Family) -> None:
    """A cache whose step failed is as good as new: its next token is the first."""
    cache = start(llama, 'cake')
    for layer in range(3):
        feed(llama, cache, FIRST, 1)
        with broken_keys(llama, layer), pytest.raises(NonFiniteError):
            llama(cache, input_ids=text(1))
        assert cache.get_seq_length() == 0
    assert_equal(feed(llama, cache, FIRST, 2), feed(llama, start(llama, 'cake'), FIRST, 2))


def feed_after(
    llama: Family, cache: CompressedCache, first: tuple[int, ...], then: tuple[int, ...],
    first_seed: int, seed: int,
) -> list[Tensor]:
    """Return the logits of the second part of a conversation."""
    feed(llama, cache, first, first_seed)
    return feed(llama, cache, then, seed)


def test_pool_that_is_full_in_a_middle_layer_fails_one_session(llama: Family) -> None:
    """The session that finds no page gives all of its own back; the other goes on unharmed."""
    pool = BlockPool(60_000)
    good, bad = start(llama, 'full', pool=pool), start(llama, 'full', pool=pool)
    feed(llama, good, (40,), 1)
    used = pool.used_bytes
    feed(llama, bad, (9,), 2)
    with pytest.raises(PoolFullError, match=r'bytes of cache are wanted, \d+ of the pool'):
        llama(bad, input_ids=text(40))
    assert pool.used_bytes == used
    assert_equal(
        feed(llama, good, (1, 9), 3), feed_after(llama, start(llama, 'full'), (40,), (1, 9), 1, 3)
    )


def test_forgotten_and_closed_sessions_hold_no_page(llama: Family) -> None:
    """Pages return when a session is closed, and when nobody knows it any more."""
    pool = BlockPool(1 << 24)
    closed, forgotten = start(llama, 'cake', pool=pool), start(llama, 'cake+kivi4', pool=pool)
    feed(llama, closed, FIRST, 1)
    feed(llama, forgotten, FIRST, 2)
    closed.close()
    assert pool.used_bytes == page_bytes(forgotten.sessions[0])
    del forgotten
    gc.collect()
    assert pool.used_bytes == 0


@pytest.mark.parametrize('policy', BRANCHED)
def test_fork_goes_its_own_way(llama: Family, policy: str) -> None:
    """Two branches of a session compute what two sessions of the same past would, bit for bit."""
    cache = start(llama, policy)
    feed(llama, cache, FIRST, 1)
    twin = branch(cache)
    got: tuple[list[Tensor], list[Tensor]] = ([], [])
    for step in range(len(LEFT)):  # by turns, so that each writes while the other shares
        got[0].append(llama(cache, input_ids=text(LEFT[step], 200 + step)))
        got[1].append(llama(twin, input_ids=text(RIGHT[step], 300 + step)))
    for logits, turns, seed in ((got[0], LEFT, 2), (got[1], RIGHT, 3)):
        wanted = feed_after(llama, start(llama, policy), FIRST, turns, 1, seed)
        assert_equal(logits, wanted)
    cache.close()
    assert cache.pool.used_bytes == page_bytes(twin.sessions[0])
    twin.close()
    assert cache.pool.used_bytes == 0


def test_fork_costs_no_page_until_it_is_written(llama: Family) -> None:
    """A branch shares every page at first, and the source survives the end of the branch."""
    cache = start(llama, 'snapkv')
    feed(llama, cache, FIRST, 1)
    used = cache.pool.used_bytes
    twin = branch(cache)
    assert cache.pool.used_bytes == used
    llama(twin, input_ids=text(1))
    assert cache.pool.used_bytes > used
    twin.close()
    assert cache.pool.used_bytes == used


@pytest.mark.parametrize('policy', ['full', *RAW])
def test_cropped_tokens_leave_no_trace(llama: Family, policy: str) -> None:
    """Where nothing was dropped, a run whose last tokens were taken back is one without them."""
    cache = small_cache(llama, policy)
    feed(llama, cache, FIRST, 1)
    feed(llama, cache, (7,), 2)
    cache.crop(-7)
    assert cache.get_seq_length() == 42
    got = feed(llama, cache, LEFT, 3)
    wanted = feed_after(llama, small_cache(llama, policy), FIRST, LEFT, 1, 3)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('gone', [5, 40])
@pytest.mark.parametrize('policy', ['snapkv', 'cake', 'veda', 'cake+squat4', 'h2o+int8',
                                    'pyramid+tiers'])
def test_crop_of_a_cache_that_dropped_tokens(llama: Family, policy: str, gone: int) -> None:
    """After a crop each head attends to what it still holds, however unlike the heads are."""
    cache = start(llama, policy)
    oracle = Oracle(llama, cache)
    for step, tokens in enumerate((60, 1, 1, 5, 0, 20, 1, 5, 1)):
        if not tokens:
            cache.crop(-gone)
            oracle.cache.crop(-gone)
            continue
        ids = text(tokens, step)
        wanted, got = oracle(input_ids=ids), llama(cache, input_ids=ids)
        assert float((got - wanted).abs().max() / wanted.abs().max()) < 1e-5


def test_cache_can_be_used_anew(llama: Family) -> None:
    """After reset a cache computes what a new one does."""
    cache = start(llama, 'cake+squat4')
    feed(llama, cache, FIRST, 1)
    cache.reset()
    assert cache.pool.used_bytes == 0
    assert cache.get_seq_length() == 0
    assert_equal(feed(llama, cache, FIRST, 2), feed(llama, start(llama, 'cake+squat4'), FIRST, 2))


def test_model_that_is_not_attached_is_named(llama: Family) -> None:
    """A model that attends past the cache is told from one that uses it, and how to mend it."""
    cache = start(llama, 'cake')
    detach(llama.model)
    try:
        llama(cache, input_ids=text(5))
        with pytest.raises(CacheError, match=r'call attach\(model\) first'):
            llama(cache, input_ids=text(1))
    finally:
        attach(llama.model)

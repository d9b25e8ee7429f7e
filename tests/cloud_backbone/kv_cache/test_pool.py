# SPDX-License-Identifier: Apache-2.0
"""Promises of the memory that all sessions share."""

import threading

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.errors import PoolFullError
from cloud_backbone.kv_cache.hook import attach
from hypothesis import given, settings, strategies
import pytest
import torch
from torch import Tensor

from tests.fakes.small_policies import small_cache, small_limit
from tests.fakes.tiny_models import make_family, text

SIZES = (64, 96, 256)


def test_page_belongs_to_one_owner_until_it_is_given_back() -> None:
    """No page is handed out twice; what is given back is free at once, and may be taken again."""
    pool = BlockPool(640)
    first, second = pool.take(64, 4), pool.take(64, 6)
    assert len({*first.tolist(), *second.tolist()}) == 10
    assert pool.free_bytes == 0
    pool.give(64, first)
    assert pool.free_bytes == 256
    assert sorted(pool.take(64, 4).tolist()) == sorted(first.tolist())


def test_pages_taken_together_lie_side_by_side() -> None:
    """A run is found where there is one, also among pages that were given back."""
    pool = BlockPool(6400)
    pages = pool.take(64, 20)
    assert pages.tolist() == list(range(20))
    pool.give(64, pages[[3, 7, 8, 9, 15]])
    assert pool.take(64, 3).tolist() == [7, 8, 9]


def test_full_pool_takes_nothing() -> None:
    """A request that does not fit is refused as a whole and tells how much is free."""
    pool = BlockPool(1000)
    pool.take(64, 10)
    with pytest.raises(PoolFullError, match=r"384 bytes.*360 of the pool's 1000 are free"):
        pool.take(96, 4)
    assert pool.used_bytes == 640
    assert len(pool.take(96, 3)) == 3


def test_shared_page_is_free_when_its_last_owner_leaves() -> None:
    """Each share must be given back."""
    pool = BlockPool(640)
    pages = pool.take(64, 2)
    pool.share(64, pages)
    assert pool.is_shared(64, pages).all()
    pool.give(64, pages)
    assert pool.used_bytes == 128
    assert not pool.is_shared(64, pages).any()
    pool.give(64, pages)
    assert pool.used_bytes == 0


def test_capacity_must_hold_something() -> None:
    """A pool without bytes is a mistake of the caller."""
    with pytest.raises(ValueError, match='a pool of 0 bytes holds nothing'):
        BlockPool(0)


@settings(max_examples=40, deadline=None)
@given(steps=strategies.lists(
    strategies.tuples(strategies.sampled_from(SIZES), strategies.integers(-3, 9)), max_size=30,
))
def test_bytes_add_up_whatever_is_taken_and_given(steps: list[tuple[int, int]]) -> None:
    """Whatever the order: no page has two owners, content stays, and the bytes are right."""
    pool = BlockPool(4000)
    held: list[tuple[int, Tensor, int]] = []
    for mark, (size, count) in enumerate(steps):
        if count < 0 and held:
            given_size, pages, old = held.pop(count % len(held))
            assert (pool.arena(given_size)[pages] == old).all()
            pool.give(given_size, pages)
        elif count >= 0 and size * count <= pool.free_bytes:
            pages = pool.take(size, count)
            pool.arena(size)[pages] = mark
            held.append((size, pages, mark))
        assert pool.used_bytes == sum(size * len(pages) for size, pages, _ in held)
    for size in SIZES:
        pages = [int(page) for s, taken, _ in held if s == size for page in taken]
        assert len(pages) == len(set(pages))


def test_threads_never_get_the_same_page() -> None:
    """Pages that several threads take and give at once keep what their owner wrote."""
    pool = BlockPool(64 * 400)
    broken: list[int] = []

    def work(mark: int) -> None:
        for _ in range(100):
            pages = pool.take(64, 20)
            pool.arena(64)[pages] = mark
            if not bool((pool.arena(64)[pages] == mark).all()):
                broken.append(mark)
            pool.give(64, pages)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not broken
    assert pool.used_bytes == 0


@pytest.mark.parametrize('policy', ['full', 'snapkv'])
def test_pool_tells_how_many_more_sessions_fit(policy: str) -> None:
    """As many sessions as it says do fit, and no further one does."""
    family = make_family('llama')
    attach(family.model)
    probe = small_cache(family, policy, budget_bytes=90_000)
    family(probe, input_ids=text(80))
    session = probe.pool.used_bytes
    pool = BlockPool(4 * session - 1)
    caches = []
    for left in (3, 2, 1):
        assert pool.fits(session) == left
        caches.append(small_cache(family, policy, budget_bytes=90_000, pool=pool))
        family(caches[-1], input_ids=text(80))
    assert pool.fits(session) == 0
    with pytest.raises(PoolFullError):
        family(small_cache(family, policy, budget_bytes=90_000, pool=pool), input_ids=text(80))
    assert pool.used_bytes == 3 * session


@pytest.mark.parametrize('policy', ['full', 'cake', 'cake+squat4', 'veda+int8'])
def test_cropped_tokens_free_their_pages_at_once(policy: str) -> None:
    """Blocks that hold no token any more go back with the crop itself."""
    family = make_family('llama')
    attach(family.model)
    cache = small_cache(family, policy)
    family(cache, input_ids=text(24))
    before = cache.pool.used_bytes
    cache.crop(-16)
    assert cache.pool.used_bytes < before
    cache.crop(-8)
    assert cache.get_seq_length() == 0
    assert cache.pool.used_bytes <= before // 3


@pytest.mark.parametrize('policy', ['snapkv', 'cake+kivi4', 'pyramid+kivi2', 'cake+tiers'])
def test_dropped_tokens_free_their_pages_in_the_same_step(policy: str) -> None:
    """After a step, a session with a limit takes no more pages than before it, however long."""
    family = make_family('llama')
    attach(family.model)
    cache = small_cache(family, policy, small_limit(policy))
    family(cache, input_ids=text(100))
    after = cache.pool.used_bytes
    raw = small_cache(family, 'full')
    family(raw, input_ids=text(100))
    assert after < raw.pool.used_bytes / 2
    for step in range(3):
        family(cache, input_ids=text(64, step))
        assert cache.pool.used_bytes <= after * 1.1


def test_memory_is_taken_page_by_page() -> None:
    """A pool larger than most machines' memory costs what is written to it."""
    pool = BlockPool(1 << 36)
    pages = pool.take(4096, 3)
    pool.arena(4096)[pages] = 7
    assert int(pool.arena(4096)[pages].sum(dtype=torch.int64)) == 7 * 3 * 4096


def test_no_pages_may_be_shared_before_any_was_taken() -> None:
    """A fork of an empty shelf asks for it."""
    pool = BlockPool(1 << 20)
    nothing = torch.empty(2, 0, dtype=torch.int64)
    pool.share(4096, nothing)
    assert pool.is_shared(4096, nothing).shape == (2, 0)
    pool.give(4096, nothing)
    assert pool.used_bytes == 0


def test_session_may_be_collected_while_the_pool_is_in_use() -> None:
    """Its finalizer waits for no lock; the pages are free for whoever comes next."""
    pool = BlockPool(1 << 20)
    pages = pool.take(4096, 3)
    with pool._settled():
        pool.forget(4096, pages)
    assert pool.used_bytes == 0

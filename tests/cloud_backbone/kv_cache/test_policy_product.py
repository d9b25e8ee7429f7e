# SPDX-License-Identifier: Apache-2.0
"""Invariants that hold for every policy on every model family; see ``policy_product``."""

import threading
from typing import Literal

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import CompressedCache
from cloud_backbone.kv_cache.hook import attach
from cloud_backbone.kv_cache.kv_store import KVStore
import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

from tests.fakes.masked_attention import Oracle
from tests.fakes.padding import padded
from tests.fakes.policy_product import few_pairs
from tests.fakes.small_policies import small_cache, small_limit, small_policy
from tests.fakes.tensor_walk import owned_bytes, page_bytes
from tests.fakes.tiny_models import Family, make_family, text

PAIRS = pytest.mark.parametrize(('name', 'policy'), few_pairs())
PREFIX = ('paligemma',)
"""Families whose first step looks both ways: a prompt in pieces is another prompt."""
SLIDING = ('gemma3',)
"""Families with layers of the library's own that count padding: no row of a batch is as alone."""
ROWS = ((40, 25), (1, 1), (20, 3), (1, 1))
"""Tokens of two rows, turn by turn."""


def attached(name: str) -> Family:
    """Return a family whose model serves compressed caches."""
    family = make_family(name)
    attach(family.model)
    inner = getattr(family.model, 'model', family.model)
    if hasattr(inner, 'rope_deltas'):
        inner.rope_deltas = None  # Qwen2.5-VL keeps those of the batch before, whoever asked it
    return family


def is_raw(policy: str) -> bool:
    """Say whether a policy encodes nothing."""
    return not small_policy(policy).codecs(0, 2, 16)


def distance(got: Tensor, wanted: Tensor) -> float:
    """Return the largest difference, relative to the largest number that is wanted."""
    assert got.isfinite().all()
    return float((got - wanted).abs().max() / wanted.abs().max())


def idle(cache: CompressedCache) -> int:
    """Return the bytes that may lie idle: less than a block, and what waits for tokens [B]."""
    rows = list(cache.sessions[0].rows.values())
    if rows[0].sealed is None:
        return rows[0].open.block_bytes + sum(row.open.most_hole_bytes for row in rows)
    blocks = 1 if len(rows[0].tiers) == 1 else len(rows) + 1  # none is split among tiers
    waiting = sum(row.open.block_bytes for row in rows if not row.open.blocks)
    return waiting + blocks * rows[0].sealed.block_bytes


def library_bytes(cache: CompressedCache) -> int:
    """Return the bytes of the layers that stay the library's own [B]."""
    others = [layer for layer in cache.layers if not isinstance(layer, KVStore)]
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in others)


def opening_length(family: Family, words: int) -> int:
    """Return the tokens of a first turn, its image among them."""
    return int(family.opening(words)['input_ids'].shape[1])


@PAIRS
def test_bytes_are_all_counted_and_the_budget_is_met(name: str, policy: str) -> None:
    """What is stated is what is there, within the budget, and one more block would not be."""
    family = attached(name)
    limited = small_limit(policy) is not None
    budget = 15_000 if limited else None
    cache = small_cache(family, policy, budget_bytes=budget)
    family(cache, **family.opening(300))
    for step, tokens in enumerate((1, 30, 5, 1)):
        family(cache, input_ids=text(tokens, step))
        session = cache.sessions[0]
        assert session.nbytes() == owned_bytes(session)
        assert cache.nbytes() == session.nbytes() + library_bytes(cache)
        assert cache.pool.used_bytes == page_bytes(session)
        if budget is not None:
            assert session.nbytes() <= budget < session.nbytes() + idle(cache)
    assert cache.get_seq_length() == opening_length(family, 300) + 37


@PAIRS
@pytest.mark.parametrize('side', ['left', 'right'])
def test_row_of_a_batch_is_a_single_run(
    name: str, policy: str, side: Literal['left', 'right']
) -> None:
    """A padded row computes and keeps what it would alone, over several turns."""
    family, limit = attached(name), small_limit(policy)
    cache = small_cache(family, policy, limit)
    alone = [small_cache(family, policy, limit) for _ in ROWS[0]]
    oracle = Oracle(family, cache)
    mask = torch.zeros(2, 0, dtype=torch.long)
    for turn, lengths in enumerate(ROWS):
        rows = [text(count, 10 * turn + row) for row, count in enumerate(lengths)]
        ids, part = padded(rows, side)
        mask = torch.cat([mask, part], 1)
        places = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        inputs = {'input_ids': ids, 'attention_mask': mask, 'position_ids': places}
        masked = oracle(**inputs)
        got = family(cache, **inputs)
        assert distance(got[part.bool()], masked[part.bool()]) < 1e-5
        for index, row in enumerate(rows):
            real = part[index].bool()
            wanted = family(alone[index], input_ids=row, position_ids=places[index, real][None])[0]
            # Under a codec the last bit of a sum may round a number to the next code.
            bound = 1e-5 if is_raw(policy) else 1e-3
            assert name in SLIDING or distance(got[index, real], wanted) < bound
    assert [len(session) for session in cache.sessions] == mask.sum(1).tolist()


@PAIRS
def test_prompt_in_pieces_loses_nothing_without_a_budget(name: str, policy: str) -> None:
    """Without a budget nothing is dropped, and pieces attend as full attention does."""
    family = attached(name)
    cache, ids = small_cache(family, policy), text(40, seed=9)
    oracle, library = Oracle(family, cache), DynamicCache(config=family.model.config)
    for part in ids.split([17, 1, 19, 3], 1):
        spots = torch.arange(cache.get_seq_length(), cache.get_seq_length() + part.shape[1])[None]
        wanted = oracle(input_ids=part, position_ids=spots)
        got = family(cache, input_ids=part, position_ids=spots)
        assert distance(got, wanted) < 1e-5
    assert not oracle.dropped
    if is_raw(policy) and name not in PREFIX:
        assert distance(got, family(library, input_ids=ids)[:, -3:]) < 1e-5


@PAIRS
def test_prompt_shorter_than_the_window_is_exact(name: str, policy: str) -> None:
    """A prompt of 3 tokens is exact until something is dropped or encoded, finite after."""
    family = attached(name)
    cache = small_cache(family, policy, small_limit(policy))
    library = DynamicCache(config=family.model.config)
    further = [{'input_ids': text(tokens, tokens)} for tokens in (1, 30, 1)]
    for step, inputs in enumerate([family.opening(3), *further]):
        # An image may be more than an uneven budget leaves its smallest layer.
        rows = [row for session in cache.sessions for row in session.rows.values()]
        is_whole = all(row.complete for row in rows)
        got = family(cache, **inputs)
        if step < 2 and is_raw(policy) and is_whole:
            assert distance(got, family(library, **inputs)) < 1e-5
        assert got.isfinite().all()
    assert cache.get_seq_length() == opening_length(family, 3) + 32


@PAIRS
def test_sessions_in_two_threads_do_not_meet(name: str, policy: str) -> None:
    """Two sessions at once in one pool compute what each computes alone, bit for bit."""
    family, pool = attached(name), BlockPool(1 << 24)
    caches = [small_cache(family, policy, small_limit(policy), pool=pool) for _ in range(2)]
    meeting = threading.Barrier(2, timeout=20)
    found: list[list[Tensor]] = [[], []]

    def work(index: int) -> None:
        for step, tokens in enumerate((30, 1, 12)):
            meeting.wait()  # both take the same step at the same time
            found[index].append(family(caches[index], input_ids=text(tokens, 10 * index + step)))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, logits in enumerate(found):
        alone = small_cache(family, policy, small_limit(policy))
        for step, (tokens, got) in enumerate(zip((30, 1, 12), logits, strict=True)):
            assert torch.equal(got, family(alone, input_ids=text(tokens, 10 * index + step)))
    assert pool.used_bytes == sum(page_bytes(cache.sessions[0]) for cache in caches)
    for cache in caches:
        cache.close()
    assert pool.used_bytes == 0

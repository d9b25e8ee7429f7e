# SPDX-License-Identifier: Apache-2.0
"""Promises to batches: a row is a session of its own, whatever lies beside it."""

from typing import Literal

from cloud_backbone.kv_cache.compressed_cache import CompressedCache
from cloud_backbone.kv_cache.errors import CacheError, MaskError
from cloud_backbone.kv_cache.hook import attach
from cloud_backbone.model.distilled_vlm import CACHE_NAME
import pytest
import torch
from torch import Tensor

from tests.fakes.padding import padded
from tests.fakes.small_policies import small_cache, small_limit, small_policy
from tests.fakes.tiny_models import Family, make_family, text

TURNS = ((40, 25, 33), (1, 1, 1), (20, 3, 12), (1, 1, 1))
"""Tokens of three rows, turn by turn."""
POLICIES = ['full', 'sinks', 'snapkv', 'pyramid', 'h2o', 'cake', 'veda', 'cake+squat4', 'h2o+int8']
BEAMS = ['full', 'snapkv', 'cake+kivi4']


@pytest.fixture(scope='module')
def llama() -> Family:
    """Return a tiny attached Llama of three layers."""
    family = make_family('llama')
    attach(family.model)
    return family


def started(llama: Family, policy: str, rows: int = 2) -> CompressedCache:
    """Return a cache with a prompt in each row."""
    cache = small_cache(llama, policy, small_limit(policy))
    llama(cache, input_ids=torch.cat([text(40, seed) for seed in range(rows)]))
    return cache


def alone(llama: Family, policy: str, seeds: tuple[int, ...], *steps: int) -> Tensor:
    """Return the last logits (rows, vocabulary) of prompts that run alone."""
    last = []
    for seed in seeds:
        cache = small_cache(llama, policy, small_limit(policy))
        llama(cache, input_ids=text(40, seed))
        last += [llama(cache, input_ids=text(1, step))[0, -1] for step in steps][-1:]
    return torch.stack(last)


def go_on(llama: Family, cache: CompressedCache, *steps: int) -> Tensor:
    """Feed the same token to all rows, step by step; return the last logits."""
    for step in steps:
        ids = text(1, step).expand(len(cache.sessions), -1).contiguous()
        logits = llama(cache, input_ids=ids)[:, -1]
    return logits


def assert_same(got: Tensor, wanted: Tensor, policy: str) -> None:
    """Compare; under a codec the last bit of a sum may round a number to the next code."""
    tolerance = 1e-5 if not small_policy(policy).codecs(0, 2, 16) else 1e-3
    assert float((got - wanted).abs().max() / wanted.abs().max()) < tolerance


@pytest.mark.parametrize('side', ['left', 'right'])
@pytest.mark.parametrize('policy', POLICIES)
def test_row_is_as_if_alone(
    llama: Family, policy: str, side: Literal['left', 'right']
) -> None:
    """A row of a padded batch computes and keeps what it would alone, over several turns."""
    cache = small_cache(llama, policy, small_limit(policy))
    singles = [small_cache(llama, policy, small_limit(policy)) for _ in TURNS[0]]
    mask = torch.zeros(3, 0, dtype=torch.long)
    for turn, lengths in enumerate(TURNS):
        rows = [text(count, 10 * turn + row) for row, count in enumerate(lengths)]
        ids, part = padded(rows, side)
        mask = torch.cat([mask, part], 1)
        places = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        got = llama(cache, input_ids=ids, attention_mask=mask, position_ids=places)
        for index, row in enumerate(rows):
            wanted = llama(singles[index], input_ids=row)[0]
            assert_same(got[index, part[index].bool()], wanted, policy)
    for session, single in zip(cache.sessions, singles, strict=True):
        for layer, row in single.sessions[0].rows.items():
            for shelf, twin in zip(row.shelves, session.rows[layer].shelves, strict=True):
                assert torch.equal(shelf.positions, twin.positions)


@pytest.mark.parametrize('policy', ['full', 'cake', 'cake+squat4'])
def test_row_may_have_no_token_in_a_step(llama: Family, policy: str) -> None:
    """A row whose first step is all padding begins with the second."""
    cache = small_cache(llama, policy, small_limit(policy))
    mask = torch.tensor([[1] * 6, [0] * 6])
    llama(cache, input_ids=text(12).view(2, 6), attention_mask=mask)
    mask = torch.cat([mask, torch.tensor([[0] * 4 + [1] * 5, [1] * 9])], 1)
    ids = torch.cat([text(9, 2), text(9, 3)])
    places = (mask.cumsum(1) - 1).clamp(min=0)[:, -9:]
    got = llama(cache, input_ids=ids, attention_mask=mask, position_ids=places)[1]
    wanted = llama(small_cache(llama, policy, small_limit(policy)), input_ids=ids[1:])[0]
    assert_same(got, wanted, policy)
    assert [len(session) for session in cache.sessions] == [11, 9]


@pytest.mark.parametrize('policy', BEAMS)
def test_beams_go_on_from_the_rows_they_are_given(llama: Family, policy: str) -> None:
    """After a reordering each row continues the row that it was given, also one given twice."""
    cache = started(llama, policy, rows=3)
    cache.reorder_cache(torch.tensor([2, 0, 2]))
    assert_same(go_on(llama, cache, 7, 8), alone(llama, policy, (2, 0, 2), 7, 8), policy)
    cache.close()
    assert cache.pool.used_bytes == 0


@pytest.mark.parametrize('policy', BEAMS)
def test_rows_can_be_chosen_and_repeated(llama: Family, policy: str) -> None:
    """Chosen rows go on alone, repeated rows go on beside each other; pages follow."""
    cache = started(llama, policy)
    before = cache.pool.used_bytes
    cache.batch_select_indices(torch.tensor([1]))
    assert cache.pool.used_bytes == before // 2
    assert_same(go_on(llama, cache, 7), alone(llama, policy, (1,), 7), policy)
    cache.batch_repeat_interleave(2)
    assert_same(go_on(llama, cache, 8, 9), alone(llama, policy, (1, 1), 7, 8, 9), policy)


def test_beam_search_runs_over_the_cache(llama: Family) -> None:
    """The library's beam search finds over the full policy what it finds over its own cache."""
    options = {'max_new_tokens': 6, 'num_beams': 3, 'do_sample': False}
    library = llama.model.generate(input_ids=text(20), **options)
    ours = llama.model.generate(
        input_ids=text(20), **{CACHE_NAME: small_cache(llama, 'full')}, **options
    )
    assert torch.equal(library, ours)
    evicting = small_cache(llama, 'snapkv', 16)
    llama.model.generate(input_ids=text(40), **{CACHE_NAME: evicting}, **options)


def test_mask_that_hides_the_past_is_refused(llama: Family) -> None:
    """A mask that no cache of sessions can follow is an error, not a wrong answer."""
    cache = started(llama, 'snapkv', rows=1)
    mask = torch.ones(1, 41, dtype=torch.long)
    mask[0, 3:9] = 0
    with pytest.raises(MaskError, match='the mask shows 34 tokens of the past'):
        llama(cache, input_ids=text(1), attention_mask=mask)


def test_crop_after_rearranging(llama: Family) -> None:
    """A cache whose rows were chosen or repeated can be cropped at once."""
    cache = started(llama, 'snapkv', rows=3)
    cache.batch_select_indices(torch.tensor([1]))
    cache.crop(-2)
    cache.batch_repeat_interleave(2)
    cache.crop(-3)
    assert [len(session) for session in cache.sessions] == [35, 35]


def test_unused_cache_can_be_rearranged() -> None:
    """As with the library's caches, there is nothing to do."""
    cache = small_cache(make_family('llama'), 'snapkv', 24)
    cache.crop(-3)
    cache.batch_repeat_interleave(2)
    cache.reorder_cache(torch.tensor([0]))
    cache.batch_select_indices(torch.tensor([0]))
    assert cache.get_seq_length() == 0


def test_batch_of_another_size_is_refused(llama: Family) -> None:
    """Rows neither come nor go unasked; the sessions stay as they were and go on."""
    cache = started(llama, 'snapkv')
    with pytest.raises(CacheError, match='holds 2 sequences, the batch has 1'):
        llama(cache, input_ids=text(1))
    assert_same(go_on(llama, cache, 7), alone(llama, 'snapkv', (0, 1), 7), 'snapkv')

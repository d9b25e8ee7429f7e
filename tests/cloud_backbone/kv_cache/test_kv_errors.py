# SPDX-License-Identifier: Apache-2.0
"""Promises about bad input: a typed error that names the value, never a wrong number."""

from typing import Any

from cloud_backbone.kv_cache.compressed_cache import CompressedCache
from cloud_backbone.kv_cache.errors import CacheError, NonFiniteError, PolicyError
from cloud_backbone.kv_cache.hook import attach
from cloud_backbone.kv_cache.kv_row import KVRow
from cloud_backbone.kv_cache.kv_session import KVSession
from cloud_backbone.kv_cache.policy import find_policy, policy_names
import pytest
import torch
from torch import nn
from transformers import DynamicCache, LlamaConfig

from tests.fakes.small_policies import small_cache, small_policy
from tests.fakes.tiny_models import Family, make_family, text


@pytest.fixture(scope='module')
def llama() -> Family:
    """Return a tiny attached Llama of three layers."""
    family = make_family('llama')
    attach(family.model)
    return family


def row(policy: str) -> KVRow:
    """Return an empty row."""
    cache = small_cache(make_family('llama'), policy)
    return KVRow(cache.pool, cache.policy, 5, 2, 16, torch.float32)


@pytest.mark.parametrize('name', ['', 'cakes', 'cake+', '+kivi4', 'cake+cake', 'kivi4+cake',
                                  'full+kivi4', 'cake+kivi4+int8', 'CAKE'])
def test_unknown_policy_is_told_with_the_known_ones(name: str) -> None:
    """The error names what was asked for and what there is."""
    with pytest.raises(PolicyError, match='no cache policy') as caught:
        find_policy(name)
    assert repr(name) in str(caught.value)
    assert all(known in str(caught.value) for known in ('full', 'cake+squat4'))


def test_every_listed_policy_can_be_asked_for() -> None:
    """The list and the table agree, and no name is listed twice."""
    names = policy_names()
    assert len(names) == len(set(names))
    assert [find_policy(name).name for name in names] == names


@pytest.mark.parametrize('bad', [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize('policy', ['full', 'cake', 'cake+squat4', 'h2o+int8'])
def test_keys_and_values_must_be_finite(policy: str, bad: float) -> None:
    """NaN and infinity are refused in either, also where they would cancel in a sum."""
    whole = torch.randn(2, 9, 16, generator=torch.Generator().manual_seed(0))
    broken = whole.clone()
    broken[1, 4, 7] = bad
    cancelling = broken.clone()
    cancelling[0, 0, 0] = -bad
    for key, value in ((broken, whole), (whole, broken), (cancelling, whole), (broken, -broken)):
        with pytest.raises(NonFiniteError, match='layer 5 hold NaN or infinity'):
            row(policy).check(key, value)
    row(policy).check(whole, whole * 1e30)


@pytest.mark.parametrize('policy', policy_names())
def test_constant_and_huge_numbers_stay_finite(policy: str) -> None:
    """Keys without any spread, zeros, and the largest numbers are kept as finite ones."""
    for number in (0.0, 1.0, -7.5, 6e4, 1e-8):
        made = row(policy)
        states = torch.full((2, 40, 16), number)
        made.learn(torch.full((2, 16, 16), number))
        made.append(states, states, made.columns.rows(40))
        made.settle(None)
        for shelf in made.shelves:
            for decoded in shelf.raw():
                assert decoded[shelf.alive].isfinite().all()
                largest = max(abs(number) * 0.02, 1e-6)
                assert float((decoded[shelf.alive] - number).abs().max()) <= largest


@pytest.mark.parametrize('options', [{'slots': 0}, {'slots': -3},
                                     {'slots': 24, 'budget_bytes': 50_000}])
def test_limit_must_be_one_positive_number(llama: Family, options: dict[str, Any]) -> None:
    """Zero and negative limits, and two limits at once, are mistakes of the caller."""
    with pytest.raises(CacheError):
        llama(small_cache(llama, 'cake', **options), input_ids=text(20))


def test_full_policy_takes_bytes_only(llama: Family) -> None:
    """A number of slots would make a policy drop that promises not to."""
    with pytest.raises(CacheError, match='24 slots'):
        llama(small_cache(llama, 'full', 24), input_ids=text(20))


def test_model_without_full_attention_has_nothing_to_compress() -> None:
    """Sliding layers are bounded already."""
    config = LlamaConfig(num_hidden_layers=2)
    config.layer_types = ['sliding_attention'] * 2
    config.sliding_window = 16
    with pytest.raises(CacheError, match='nothing to compress'):
        CompressedCache(config, 'cake')


def test_model_that_chooses_its_own_attention_is_refused() -> None:
    """A model that would not listen is told when it is attached, not by wrong answers."""
    class Stubborn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.config = LlamaConfig(num_hidden_layers=1)

        def set_attn_implementation(self, name: Any) -> None:
            """Do nothing."""

    with pytest.raises(CacheError, match='Stubborn does not take its attention by name'):
        attach(Stubborn())


def test_crop_counts_as_the_librarys_does(llama: Family) -> None:
    """A positive number means, or is refused, as by this version's own cache."""
    library, ours = DynamicCache(config=llama.model.config), small_cache(llama, 'cake')
    for cache in (library, ours):
        llama(cache, input_ids=text(20))
    try:
        library.crop(5)
    except (ValueError, RuntimeError) as refused:
        with pytest.raises(type(refused)):
            ours.crop(5)
    else:
        ours.crop(5)
    assert ours.get_seq_length() == library.get_seq_length()
    ours.crop(-99)
    assert ours.get_seq_length() == 0


def test_nothing_to_take_in_changes_nothing() -> None:
    """A step without tokens leaves a session as it was."""
    cache = small_cache(make_family('llama'), 'cake')
    session = KVSession(cache.pool, small_policy('cake'), [0], slots=16)
    made = session.row(0, 2, 16, torch.float32)
    empty = torch.zeros(2, 0, 16)
    session.take(0, empty, empty, made.columns.rows(0))
    assert len(session) == 0
    assert cache.pool.used_bytes == 0
    assert session.nbytes() == 0

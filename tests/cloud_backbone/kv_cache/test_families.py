# SPDX-License-Identifier: Apache-2.0
from typing import Any

from cloud_backbone.kv_cache.hook import attach, detach
from cloud_backbone.kv_cache.policy import policy_names
from cloud_backbone.model.distilled_vlm import CACHE_NAME
import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

from tests.fakes.masked_attention import Oracle
from tests.fakes.policy_product import pairs
from tests.fakes.small_policies import small_cache, small_limit, small_policy
from tests.fakes.tiny_models import Family, family_names, make_family, text

CODEC_ERRORS = {'int8': 0.01, 'oaken': 0.15, '4': 0.1, '2': 0.45, 'tiers': 0.45}
"""Largest error of a decoded number, relative to the largest of its layer, by end of the name."""
TURNS = (1, 20, 5, 1)
"""Tokens of the steps that follow the prompt: a long and a short further turn among them."""


def steps(family: Family, prompt: int = 40) -> list[dict[str, Any]]:
    """Return the inputs of a conversation."""
    further = [{'input_ids': text(tokens, seed)} for seed, tokens in enumerate(TURNS, 1)]
    return [family.opening(prompt), *further]


def distance(got: Tensor, wanted: Tensor) -> float:
    """Return the largest difference, relative to the largest number that is wanted."""
    assert got.isfinite().all()
    return float((got - wanted).abs().max() / wanted.abs().max())


def codec_error(name: str) -> float:
    """Return the largest error that a policy's codec may make."""
    ends = [error for end, error in CODEC_ERRORS.items() if name.endswith(end)]
    return ends[0] if ends and name not in ('h2o', 'full') else 1e-5


@pytest.fixture(params=family_names())
def family(request: pytest.FixtureRequest) -> Family:
    """Return each family in turn, attached."""
    made = make_family(request.param)
    attach(made.model)
    return made


@pytest.mark.parametrize(('name', 'policy'), pairs())
def test_policy_attends_as_full_attention_without_what_it_dropped(name: str, policy: str) -> None:
    """Logits over the compressed cache are those of masked full attention, in every turn."""
    family = make_family(name)
    attach(family.model)
    limit = small_limit(policy)
    cache = small_cache(family, policy, limit)
    oracle = Oracle(family, cache)
    for step in steps(family):
        wanted = oracle(**step)
        assert distance(family(cache, **step), wanted) < 1e-5
    assert oracle.dropped >= 16 if limit else not oracle.dropped
    assert oracle.error <= codec_error(policy)
    assert cache.get_seq_length() == oracle.cache.get_seq_length()


def test_full_is_the_librarys_cache_to_the_bit(family: Family) -> None:
    """Without a budget and a codec, logits equal those over DynamicCache, bit for bit."""
    cache, library = small_cache(family, 'full'), DynamicCache(config=family.model.config)
    for step in steps(family):
        assert torch.equal(family(cache, **step), family(library, **step))


def test_attached_model_serves_the_librarys_cache_as_before(family: Family) -> None:
    """Attaching changes nothing for other caches, to the bit, and detaching takes it back."""
    logits = []
    for change in (attach, detach, attach):
        change(family.model)
        library = DynamicCache(config=family.model.config)
        logits.append([family(library, **step) for step in steps(family)[:3]])
    for attached, plain in zip(logits[0], logits[1], strict=True):
        assert torch.equal(attached, plain)


def test_dropping_tokens_shows_in_the_logits(family: Family) -> None:
    """What is dropped matters: these tests could tell a wrong victim."""
    cache = small_cache(family, 'snapkv', slots=24)
    library = DynamicCache(config=family.model.config)
    for step in steps(family):
        wanted, got = family(library, **step), family(cache, **step)
    assert distance(got, wanted) > 1e-2


def test_prompt_in_chunks_is_the_prompt_at_once(family: Family) -> None:
    """Without a budget, a prefill in pieces gives the logits of one in a single step."""
    once, pieces = small_cache(family, 'cake'), small_cache(family, 'cake')
    ids = text(40, seed=9)
    wanted = family(once, **family.opening(0)) if family.start else None
    got = family(pieces, **family.opening(0)) if family.start else None
    wanted = family(once, input_ids=ids)
    for part in ids.split([17, 1, 19, 3], 1):
        got = family(pieces, input_ids=part)
    assert got is not None
    assert distance(got, wanted[:, -3:]) < 1e-5


@pytest.mark.parametrize('policy', ['full', 'cake+squat4'])
def test_generate_goes_through_the_cache(family: Family, policy: str) -> None:
    """The library's generate runs over the cache; with nothing dropped it says the same."""
    opening = family.opening(12)
    answers = []
    for cache in (DynamicCache(config=family.model.config), small_cache(family, policy)):
        answers.append(family.model.generate(
            **{CACHE_NAME: cache}, **opening, max_new_tokens=8, min_new_tokens=8, do_sample=False,
        ))
        assert cache.get_seq_length() == opening['input_ids'].shape[1] + 7
    assert answers[0].shape == answers[1].shape
    if policy == 'full':
        assert torch.equal(*answers)


def test_raw_policy_has_no_codec() -> None:
    """The bound of a policy's error is that of its codec."""
    assert {name for name in policy_names() if codec_error(name) == 1e-5} == {
        name for name in policy_names() if not small_policy(name).codecs(0, 2, 16)
    }

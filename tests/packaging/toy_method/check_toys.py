# SPDX-License-Identifier: Apache-2.0
"""What a method must do after the six steps; runs in a copy of the packages that has the toys."""

from cloud_backbone.kv_cache.hook import attach
from cloud_backbone.kv_cache.policy import find_policy, policy_names
import pytest
from tendon.bench_kv.contestants import draw_jobs, find_method
from tendon.bench_kv.size import FULL

from tests.fakes.small_policies import small_cache, small_limit
from tests.fakes.tiny_models import make_family, text

TOYS = ('toyrule', 'toycode', 'toyrule+toycode', 'cake+toycode', 'toyrule+squat4', 'toyrule+tiers')


@pytest.mark.parametrize('name', TOYS)
def test_it_is_a_policy(name: str) -> None:
    """It is among the names, and is found by its own."""
    assert name in policy_names() and find_policy(name).name == name


@pytest.mark.parametrize('name', TOYS)
def test_a_model_attends_through_it(name: str) -> None:
    """A prompt, a further turn and a step give finite logits; slots are dropped if it ranks."""
    family = make_family('llama')
    attach(family.model)
    cache = small_cache(family, name, small_limit(name))
    for tokens in (80, 20, 1):
        assert family(cache, input_ids=text(tokens)).isfinite().all()
    assert cache.get_seq_length() == 101
    held = sum(int(shelf.alive.sum()) for shelf in cache.sessions[0].rows[0].shelves)
    heads = cache.sessions[0].rows[0].kv_heads
    assert (held < 101 * heads) == (find_policy(name).scorer is not None)


def test_toys_take_part_in_the_bench() -> None:
    """The bench judges both; a rule at a budget, a code at whatever it comes to."""
    judged = {job.method: job.shares for job in draw_jobs(FULL, with_tokenizer=False)}
    assert judged['toycode'] == (None,) and judged['toyrule'] != (None,)
    assert find_method('toyrule', with_tokenizer=False).maker == 'tendon'

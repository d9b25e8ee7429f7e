# SPDX-License-Identifier: Apache-2.0
"""Promises of the cache of a server: what is granted fits, and what cannot be is refused."""

from cloud_backbone.cache_grants import CacheGrants
from cloud_backbone.cache_needs import CacheNeeds, RowShape
from cloud_backbone.config import CacheConfig
from cloud_backbone.embodiment import Camera, Embodiment
from cloud_backbone.errors import FixRequestError, Reason, StartError
from cloud_backbone.messages import Hello
import pytest
import torch

CAMERA = Camera('c', 64, 64, 0.6, (0.0, 0.0, 1.0), (0.0, 1.0, 0.0, 0.0))
ARM = Embodiment('arm', ('a',), (CAMERA,), 'a', (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
SHAPE = RowShape(layers=2, kv_heads=2, head_dim=16, dtype=torch.float32)
NEEDS = CacheNeeds(
    longest_bytes=100_000, longest_tokens=200, usual_bytes=40_000, shape=SHAPE
)
PLAIN = CacheNeeds(longest_bytes=100_000, longest_tokens=200, usual_bytes=0, shape=None)


def hello(policy: str = '', budget: int = 0) -> Hello:
    """Ask for a cache."""
    return Hello('robot', 1, ARM, policy, budget)


def grants(needs: CacheNeeds = NEEDS, **config: object) -> CacheGrants:
    """Return a pool of a million bytes, and two turns at a time."""
    return CacheGrants(CacheConfig(**{'pool_bytes': 10**6, **config}), needs, 2)


def test_hello_decides_and_the_config_fills_in() -> None:
    """Policy and budget are the robot's; what it leaves open is the backbone's."""
    given = grants(policy='cake', budget_fraction=0.9)
    for said, policy, budget in (
        (hello(), 'cake', 36_000),
        (hello(budget=60_000), 'cake', 60_000),
        (hello('cake'), 'cake', 36_000),
        (hello('squat4'), 'squat4', 0),
        (hello('cake+squat4', 50_000), 'cake+squat4', 50_000),
        (hello('full'), 'full', 0),
    ):
        terms = given.terms(said)
        assert (terms.policy.name, terms.budget_bytes) == (policy, budget)
        for cache in given.give(terms):
            assert (cache.policy, cache.budget_bytes) == (terms.policy, budget or None)


@pytest.mark.parametrize(
    ('needs', 'policy', 'budget', 'message'),
    [
        (NEEDS, 'squat9', 0, "policy 'squat9', this backbone knows full, .*cake.squat4"),
        (PLAIN, 'kivi4', 0, "policy 'kivi4', this backbone knows full$"),
        (NEEDS, 'cake+squat4', 99, 'allows 99 bytes of cache, policy cake.squat4 needs [0-9]{4,}'),
        (NEEDS, 'full', 99_999, 'policy full needs 100000'),
        (NEEDS, 'full', 800_001, 'the pool has 800000'),
        (NEEDS, 'kivi4', -5, 'allows -5 bytes'),
    ],
)
def test_impossible_wish_is_refused_by_name(
    needs: CacheNeeds, policy: str, budget: int, message: str
) -> None:
    """The message has the robot's value and what would do."""
    with pytest.raises(FixRequestError, match=message) as caught:
        grants(needs).terms(hello(policy, budget))
    assert caught.value.reason is Reason.BAD_CACHE_POLICY


@pytest.mark.parametrize('policy', ['cake+squat4', 'kivi4', 'veda', 'full'])
def test_least_budget_that_is_named_is_enough(policy: str) -> None:
    """A robot that asks for what the message says gets in."""
    given = grants()
    with pytest.raises(FixRequestError) as caught:
        given.terms(hello(policy, 1))
    least = int(str(caught.value).split(' needs ')[1].split()[0])
    assert given.terms(hello(policy, least)).budget_bytes == least
    with pytest.raises(FixRequestError):
        given.terms(hello(policy, least - 1))


def test_small_budgets_let_more_sessions_in() -> None:
    """Room is counted by what is promised, and comes back."""
    wide, narrow = grants(), grants(policy='cake+squat4', budget_bytes=20_000)
    assert (wide.free_sessions(), narrow.free_sessions()) == (8, 40)
    terms = narrow.terms(hello())
    narrow.give(terms)
    assert narrow.free_sessions() == 39
    narrow.take_back(terms)
    assert narrow.free_sessions() == 40


@pytest.mark.parametrize(
    ('needs', 'config', 'message'),
    [
        (NEEDS, {'pool_bytes': 200_000}, 'pool_bytes is 200000, 2 turns .* more than 200000'),
        (NEEDS, {'policy': 'nothing'}, "cache: .*policy 'nothing'"),
        (NEEDS, {'policy': 'cake+kivi4', 'budget_fraction': 0.001}, 'allows 40 bytes'),
        (PLAIN, {'policy': 'kivi4'}, 'knows full'),
    ],
)
def test_settings_that_no_session_could_have_stop_the_start(
    needs: CacheNeeds, config: dict[str, object], message: str
) -> None:
    """The operator hears of it before any robot does."""
    with pytest.raises(StartError, match=message):
        grants(needs, **config)

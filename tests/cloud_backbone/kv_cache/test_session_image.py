# SPDX-License-Identifier: Apache-2.0
"""Promises of a session that became tensors and plain words, and came back."""

from dataclasses import replace
import json
from pathlib import Path
from typing import Any

from cloud_backbone.cache_policies import policies_of
from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import CompressedCache, tentative_cache
from cloud_backbone.kv_cache.errors import CacheError, CalibrationError, PoolFullError
from cloud_backbone.kv_cache.hook import attach
from cloud_backbone.kv_cache.kv_session import KVSession
from cloud_backbone.kv_cache.model_biases import biases_of
from cloud_backbone.kv_cache.oaken import OakenCodec
from cloud_backbone.kv_cache.oaken_edges import OakenThresholds
from cloud_backbone.kv_cache.policy import policy_names
from cloud_backbone.kv_cache.session_image import put_image, SessionImage, take_image
from cloud_backbone.kv_cache.squat import SquatCodec
from cloud_backbone.kv_cache.squat_gains import SquatGains
from cloud_backbone.model.checkpoint_files import fingerprint, load_model
import pytest
from safetensors.torch import load, save
import torch
from torch import Tensor

from tests.fakes.small_policies import small_cache, small_limit, small_policy
from tests.fakes.tensor_walk import page_bytes
from tests.fakes.tiny_models import Family, make_family, text

BEFORE = (40, 1, 1, 1)
AFTER = (1, 1, 20, 1, 1, 9, 1, 1)
SOME = ['full', 'cake', 'veda', 'h2o+int8', 'cake+squat4', 'snapkv+oaken', 'pyramid+tiers']


@pytest.fixture(scope='module')
def llama() -> Family:
    """Return a tiny attached Llama of three layers."""
    family = make_family('llama')
    attach(family.model)
    return family


def through_file(image: SessionImage) -> SessionImage:
    """Return what is left of an image after it was bytes and text."""
    tensors: dict[str, Tensor] = load(save(dict(image.tensors)))
    return SessionImage(tensors, json.loads(json.dumps(image.meta)))


def revived(
    family: Family, cache: CompressedCache, pool: BlockPool | None = None
) -> CompressedCache:
    """Return a cache that goes on from the image of another one's session, in its own pool."""
    pool = pool or BlockPool(1 << 24)
    image = through_file(take_image(cache.begin()))
    session = put_image(image, pool, cache.policy, biases_of(family.model))
    return CompressedCache(family.model.config, cache.policy, pool=pool, sessions=[session])


def feed(family: Family, cache: Any, turns: tuple[int, ...], seed: int) -> list[Tensor]:
    """Return the logits of some steps of random text."""
    return [family(cache, input_ids=text(tokens, 100 * seed + step))
            for step, tokens in enumerate(turns)]


def assert_same_run(family: Family, one: CompressedCache, other: CompressedCache) -> None:
    """Let both go on with the same text; every logit and every byte count is the same."""
    for step, tokens in enumerate(AFTER):
        ids = text(tokens, 900 + step)
        assert torch.equal(family(other, input_ids=ids), family(one, input_ids=ids)), step
        assert other.nbytes() == one.nbytes()
    assert other.begin().intact() == one.begin().intact()


@pytest.mark.parametrize('policy', policy_names())
def test_session_goes_on_as_if_nothing_had_happened(llama: Family, policy: str) -> None:
    """Under every policy the next logits, and all evictions after them, are the same bits."""
    cache = small_cache(llama, policy, small_limit(policy))
    feed(llama, cache, BEFORE, 1)
    other = revived(llama, cache)
    assert other.nbytes() == cache.nbytes()
    assert_same_run(llama, cache, other)


@pytest.mark.parametrize('policy', ['full', 'kivi4', 'cake+squat4'])
@pytest.mark.parametrize('name', ['qwen', 'qwen-image', 'tendon', 'smolvlm'])
def test_images_and_key_biases_come_back(name: str, policy: str) -> None:
    """Rotary positions of images and keys without their bias go on as they were."""
    family = make_family(name)
    attach(family.model)
    cache = small_cache(family, policy, small_limit(policy))
    family(cache, **family.opening(30))
    assert_same_run(family, cache, revived(family, cache))


@pytest.mark.parametrize('policy', SOME)
def test_crop_and_commit_after_the_way_back(llama: Family, policy: str) -> None:
    """What may still be taken back can be taken back, and is settled at the same commit."""
    cache = small_cache(llama, policy, small_limit(policy))
    feed(llama, cache, BEFORE, 1)
    cache.begin().tentative = True
    feed(llama, cache, (12,), 2)
    other = revived(llama, cache)
    for each in (cache, other):
        each.crop(-5)
        each.begin().commit()
        each.begin().tentative = False
    assert_same_run(llama, cache, other)


@pytest.mark.parametrize('policy', ['full', 'snapkv', 'kivi4', 'cake+squat4', 'h2o+int8'])
def test_byte_budget_shares_and_pins_come_back(llama: Family, policy: str) -> None:
    """Budget, shares of the layers, reserved pages and pins are those of the other session."""
    free = small_cache(llama, policy)
    feed(llama, free, (160,), 1)
    budget = free.nbytes() if small_limit(policy) is None else free.nbytes() // 2
    cache = CompressedCache(
        llama.model.config, free.policy, budget, pool=BlockPool(1 << 24)
    )
    feed(llama, cache, (20, 1), 1)
    cache.begin().pin(3, 9)
    other = revived(llama, cache)
    assert_same_run(llama, cache, other)
    assert other.begin().rows[0].holds(3, 9)


@pytest.mark.parametrize('budget', [None, 160_000])
@pytest.mark.parametrize('policy', ['full', 'cake+squat4', 'veda+oaken', 'h2o+kivi2', 'snapkv'])
def test_forms_that_are_served_with_shared_tables(
    root: Path, policy: str, budget: int | None
) -> None:
    """Of the shipped model: policies for short turns, gains and thresholds of all sessions."""
    checkpoint = root / 'cloud_backbone' / 'checkpoints' / 'tabletop'
    family = Family('shipped', load_model(checkpoint, 'cpu'), {})
    attach(family.model)
    served = policies_of(checkpoint, fingerprint(checkpoint)).find(policy)
    cache = tentative_cache(
        family.model.config, BlockPool(1 << 26), served, None if served.lossless else budget
    )
    feed(family, cache, (60, 1), 1)
    cache.begin().commit()
    other = revived(family, cache, BlockPool(1 << 26))
    for turn in range(2):
        for each in (cache, other):
            each.crop(-1)
        assert_same_run(family, cache, other)
        for each in (cache, other):
            each.begin().commit()
        assert other.nbytes() == cache.nbytes(), turn


@pytest.mark.parametrize('policy', SOME)
def test_image_of_a_branch(llama: Family, policy: str) -> None:
    """A branch whose pages are shared is imaged like any session, and goes its own way."""
    cache = small_cache(llama, policy, small_limit(policy))
    feed(llama, cache, BEFORE, 1)
    twin = CompressedCache(
        llama.model.config, cache.policy, pool=cache.pool, sessions=[cache.begin().fork()]
    )
    feed(llama, twin, (3,), 2)
    other = revived(llama, twin)
    feed(llama, cache, (9,), 3)
    assert_same_run(llama, twin, other)


def test_session_in_a_crowded_pool(llama: Family) -> None:
    """Pages that are scattered over a pool with little room give the same bits."""
    cache = small_cache(llama, 'full')
    feed(llama, cache, BEFORE, 1)
    pool = BlockPool(120_000)
    others = [small_cache(llama, 'full', pool=pool) for _ in range(2)]
    for step in range(3):
        for other in others:
            feed(llama, other, (8,), step)
    others[0].close()
    assert_same_run(llama, cache, revived(llama, cache, pool))


def test_full_pool_takes_nothing(llama: Family) -> None:
    """Where there is no room the error is typed and not one page is kept."""
    cache = small_cache(llama, 'full')
    feed(llama, cache, BEFORE, 1)
    pool = BlockPool(20_000)
    with pytest.raises(PoolFullError):
        revived(llama, cache, pool)
    assert pool.used_bytes == 0


def test_closed_session_gives_its_pages_back(llama: Family) -> None:
    """A session that came back owns its pages like any other."""
    cache = small_cache(llama, 'cake+squat4', 24)
    feed(llama, cache, BEFORE, 1)
    other = revived(llama, cache)
    assert other.pool.used_bytes == page_bytes(other.begin()) > 0
    other.close()
    assert other.pool.used_bytes == 0


def test_image_shows_nothing_of_other_sessions(llama: Family) -> None:
    """Pages that another session used and gave back do not reach the image."""
    pool = BlockPool(1 << 20)
    secret = small_cache(llama, 'full', pool=pool)
    feed(llama, secret, (64,), 1)
    with torch.no_grad():
        for page_size in list(pool._arenas):
            pool.arena(page_size).fill_(0x5A)
    secret.close()
    cache = small_cache(llama, 'full', pool=pool)
    feed(llama, cache, (9,), 2)
    image = take_image(cache.begin())
    assert not any(
        bool((tensor.view(torch.uint8) == 0x5A).reshape(-1, 4).all(1).any())
        for name, tensor in image.tensors.items() if name.endswith(('key', 'value'))
    )


def test_empty_session_comes_back_empty(llama: Family) -> None:
    """A session before its first token, or after its last one was taken back, is one too."""
    cache = small_cache(llama, 'cake+squat4', 24)
    cache.begin()
    assert_same_run(llama, cache, revived(llama, cache))
    cache.begin().crop(0)
    cache.align()
    assert_same_run(llama, cache, revived(llama, cache))


def image_of(llama: Family, policy: str) -> SessionImage:
    cache = small_cache(llama, policy, small_limit(policy))
    feed(llama, cache, BEFORE, 1)
    return take_image(cache.begin())


def test_another_policy_is_refused(llama: Family) -> None:
    """The message names the first field that differs, and both values."""
    image = image_of(llama, 'cake+squat4')
    with pytest.raises(CacheError, match=r"name 'cake\+squat4', this policy has 'cake'"):
        put_image(image, BlockPool(1 << 24), small_policy('cake'))
    with pytest.raises(CacheError, match='recent 8, this policy has 9'):
        put_image(image, BlockPool(1 << 24), small_policy('cake+squat4', recent=9))


def test_another_layout_is_refused(llama: Family) -> None:
    """An image of a later version is not guessed at."""
    image = image_of(llama, 'full')
    with pytest.raises(CacheError, match='layout 99, this version reads 1'):
        put_image(replace(image, meta={**image.meta, 'layout': 99}), BlockPool(1 << 24),
                  small_policy('full'))


def test_missing_bias_is_refused() -> None:
    """Keys that lie there without their bias are not read as if they had one."""
    family = make_family('qwen')
    attach(family.model)
    cache = small_cache(family, 'kivi4')
    feed(family, cache, BEFORE, 1)
    with pytest.raises(CacheError, match='without their bias'):
        put_image(take_image(cache.begin()), BlockPool(1 << 24), cache.policy)


def shared_gains(seed: int) -> Any:
    gram = torch.eye(16).repeat(2, 1, 1) + torch.rand(
        2, 16, 16, generator=torch.Generator().manual_seed(seed)
    )
    gains = SquatGains.from_gram(gram @ gram.mT, 8)
    return lambda layer, heads, width, slots: SquatCodec(width, heads, 4, slots, gains=gains)


def shared_thresholds(seed: int) -> Any:
    sample = torch.randn(2, 64, 16, generator=torch.Generator().manual_seed(seed))
    thresholds = OakenThresholds.from_samples(sample, sample)
    return lambda layer, heads, width, slots: OakenCodec(width, slots, thresholds)


@pytest.mark.parametrize(('name', 'make', 'error'), [
    ('squat4', shared_gains, CacheError), ('oaken', shared_thresholds, CalibrationError),
])
def test_other_shared_tables_are_refused(
    llama: Family, name: str, make: Any, error: type[CacheError]
) -> None:
    """Pages come back under the very tables that they were made with, and under no others."""
    mine, theirs = (small_policy(name, make_codec=make(seed)) for seed in (1, 2))
    cache = small_cache(llama, mine)
    feed(llama, cache, BEFORE, 1)
    assert_same_run(llama, cache, revived(llama, cache))
    with pytest.raises(error, match='made with other'):
        put_image(take_image(cache.begin()), BlockPool(1 << 24), theirs)


def test_taking_an_image_changes_nothing(llama: Family) -> None:
    """A session whose image was taken goes on as one whose image was not."""
    plain, imaged = (small_cache(llama, 'cake+squat4', 24) for _ in range(2))
    for cache in (plain, imaged):
        feed(llama, cache, BEFORE, 1)
    before: KVSession = imaged.begin()
    take_image(before)
    assert imaged.begin() is before
    assert_same_run(llama, plain, imaged)

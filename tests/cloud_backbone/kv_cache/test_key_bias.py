# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from typing import Any

from cloud_backbone.kv_cache.codec import Codec
from cloud_backbone.kv_cache.compressed_cache import CompressedCache
from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.hook import attach, detach
from cloud_backbone.kv_cache.model_biases import bias_of
from cloud_backbone.kv_cache.policy import find_policy, Policy
from cloud_backbone.kv_cache.raw import RawCodec
from cloud_backbone.model.distilled_vlm import CACHE_NAME
import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, Qwen2Config, Qwen2ForCausalLM

from tests.fakes.biased_models import key_projections, make_biased, make_recaller, NAMES, WORDS
from tests.fakes.small_policies import small_policy
from tests.fakes.tiny_models import Family, TEXT, text

TURNS = (1, 1, 20, 1, 5, 1)
"""Tokens of the steps after the prompt."""


def exact(layer: int, heads: int, head_dim: int, slots: int) -> Codec:
    """Make a codec that loses nothing."""
    return RawCodec(head_dim, torch.float32, slots)


def lossless(name: str = 'kivi4', **changes: Any) -> Policy:
    """Return the policy of a name, its codec replaced by one that loses nothing."""
    return small_policy(name, make_codec=exact, raw_dtype=None, **changes)


def attached(name: str, size: float = 20.0) -> Family:
    """Return a biased model that attends through compressed caches."""
    family = make_biased(name, size)
    attach(family.model)
    return family


def conversation(family: Family, cache: Any, prompt: int = 40) -> Tensor:
    """Return the logits of a prompt and of the turns that follow it (tokens, vocabulary)."""
    further = [{'input_ids': text(tokens, seed)} for seed, tokens in enumerate(TURNS, 1)]
    return torch.cat([family(cache, **step)[0] for step in (family.opening(prompt), *further)])


def full(family: Family) -> DynamicCache:
    return DynamicCache(config=family.model.config.get_text_config(decoder=True))


def close(got: Tensor, wanted: Tensor) -> bool:
    return bool((got - wanted).abs().max() <= 1e-4 * wanted.abs().max())


@pytest.mark.parametrize('name', NAMES)
def test_nothing_is_lost_by_taking_the_bias_out(name: str) -> None:
    """With a codec that loses nothing, all logits are those of the full cache."""
    family = attached(name)
    cache = CompressedCache(family.model.config, lossless())
    got = conversation(family, cache)
    assert close(got, conversation(family, full(family)))
    row = cache.sessions[0].rows[0]
    assert row.bias is not None and row.sealed is not None and row.sealed.slots >= 48


@pytest.mark.parametrize('name', NAMES)
def test_codecs_see_keys_without_the_bias(name: str) -> None:
    """Keys that are nothing but bias are stored as zeros, wherever they stand."""
    family = make_biased(name)
    for projection in key_projections(family.model):
        projection.weight.data.zero_()
    attach(family.model)
    cache = CompressedCache(family.model.config, lossless())
    conversation(family, cache)
    for shelf in cache.sessions[0].rows[0].shelves:
        key = shelf.raw()[0][:, : shelf.used]
        assert key.abs().max() < 1e-3, name


@pytest.mark.parametrize('name', ['snapkv+kivi4', 'h2o+kivi4', 'cake+kivi4', 'veda+int8'])
def test_scorers_see_the_true_attention(name: str) -> None:
    """The same tokens are dropped, and the same logits come out, as with the bias left in."""
    family, results = attached('qwen2'), []
    for aware in (True, False):
        policy = lossless(name, bias_aware=aware)
        cache = CompressedCache(family.model.config, policy, slots=24)
        logits = conversation(family, cache)
        row = cache.sessions[0].rows[1]
        results.append((logits, [shelf.positions.sort(1).values for shelf in row.shelves]))
    (got, held), (wanted, theirs) = results
    assert all(torch.equal(mine, other) for mine, other in zip(held, theirs, strict=True))
    assert held[0].shape[1] < 40 and close(got, wanted)


@pytest.mark.parametrize('name', ['qwen2', 'qwen-image'])
def test_a_cropped_or_forked_session_goes_on_rightly(name: str) -> None:
    """After a crop into the middle, original and fork each give the logits of a full cache."""
    family = attached(name)
    cache = CompressedCache(family.model.config, lossless())
    length = family(cache, **family.opening(40)).shape[1]
    family(cache, input_ids=text(12, 1))
    twin = CompressedCache.joined([cache])
    twin.sessions = [cache.sessions[0].fork()]
    for session in cache.sessions:
        session.crop(length)
    cache.align()
    plain = full(family)
    family(plain, **family.opening(40))
    assert close(family(cache, input_ids=text(9, 2)), family(plain, input_ids=text(9, 2)))
    plain = full(family)
    family(plain, **family.opening(40))
    family(plain, input_ids=text(12, 1))
    assert close(family(twin, input_ids=text(9, 3)), family(plain, input_ids=text(9, 3)))


def jumped(tokens: int, seed: int, far: int) -> dict[str, Tensor]:
    """Return text whose rotary positions the caller has chosen."""
    return {'input_ids': text(tokens, seed), 'position_ids': torch.arange(far, far + tokens)[None]}


def test_forks_stand_at_positions_of_their_own() -> None:
    """A fork that jumps far does not move the other one, nor does a crop leave the jump behind."""
    family = attached('qwen2')
    cache, plain = CompressedCache(family.model.config, lossless()), full(family)
    for each in (cache, plain):
        family(each, **jumped(40, 0, 7))
    twin = CompressedCache.joined([cache])
    twin.sessions = [cache.sessions[0].fork()]
    family(twin, **jumped(12, 1, 500))
    rope = twin.sessions[0].rope
    assert len(rope.starts) == 2 and len(cache.sessions[0].rope.starts) == 1
    twin.sessions[0].crop(40)
    assert len(rope.starts) == 1
    twin.align()
    wanted = family(plain, **jumped(12, 2, 300))
    for each in (cache, twin):
        assert close(family(each, **jumped(12, 2, 300)), wanted)


@pytest.mark.parametrize('name', ['sinks+kivi4', 'snapkv+kivi4', 'cake+squat4', 'pyramid+int8'])
def test_scattered_positions_cost_slots_not_bytes(name: str) -> None:
    """Positions that no run describes are paid by the budget: fewer slots, not more bytes."""
    family, budget = attached('qwen2'), 16_000
    generator, slots = torch.Generator().manual_seed(5), []
    for scattered in (False, True):
        cache = CompressedCache(family.model.config, small_policy(name), budget)
        for turn in range(4):
            places = torch.arange(60 * turn, 60 * turn + 60)
            if scattered:
                places = torch.randint(0, 1000, (60,), generator=generator)
            family(cache, input_ids=text(60, turn), position_ids=places[None])
            assert cache.nbytes() <= budget
        rows = cache.sessions[0].rows.values()
        slots.append(sum(row.slots for row in rows))
        assert (cache.sessions[0].rope.nbytes() > 1000) == scattered
    assert slots[1] < slots[0]


@pytest.mark.parametrize('named', [True, False])
def test_padding_on_the_left_moves_rotary_positions(named: bool) -> None:
    """Padded rows give the logits of a full cache, with position ids and without."""
    family, pads = attached('qwen2'), 5
    ids = torch.cat([text(40, 1), text(40, 2)])
    mask = torch.ones(2, 44, dtype=torch.int64)
    mask[1, :pads] = 0
    results = []
    for cache in (CompressedCache(family.model.config, lossless()), full(family)):
        steps = []
        for first, last in ((0, 40), *((n, n + 1) for n in range(40, 44))):
            ids = torch.cat([text(44, 1), text(44, 2)])[:, first:last]
            places = (mask[:, :last].cumsum(1) - 1).clamp(min=0)[:, first:]
            extra = {'position_ids': places} if named else {}
            step = family(cache, input_ids=ids, attention_mask=mask[:, :last], **extra)
            steps.append(step[:, pads if first == 0 else 0 :])
        results.append(torch.cat(steps, 1))
        if isinstance(cache, CompressedCache):
            plain = [session.rope.plain for session in cache.sessions]
    assert close(*results)
    assert plain == [True, named]


def test_an_image_costs_few_bytes_and_the_budget_pays_them() -> None:
    """Positions cost nothing for text; those of an image are counted and within the budget."""
    for name, costs in (('qwen', False), ('qwen-image', True)):
        family = attached(name)
        cache = CompressedCache(family.model.config, small_policy('snapkv+kivi4'), 20_000)
        conversation(family, cache)
        (session,) = cache.sessions
        assert bool(session.rope.nbytes()) == costs and session.rope.nbytes() < 200
        rows = sum(row.nbytes() for row in session.rows.values())
        assert session.nbytes() == rows + session.rope.nbytes() <= 20_000


def test_raw_policies_keep_keys_as_they_are() -> None:
    """Without a codec the bias stays in, and the full policy is exact to the bit."""
    family = attached('qwen2')
    cache = CompressedCache(family.model.config, 'full')
    assert torch.equal(conversation(family, cache), conversation(family, full(family)))
    assert all(row.bias is None for row in cache.sessions[0].rows.values())


def test_what_was_attached_is_forgotten_by_detach() -> None:
    """No hook and no bias are left behind; attaching twice leaves one hook."""
    family = make_biased('qwen2')
    attention = family.model.model.layers[0].self_attn
    hooks = family.model.model.rotary_emb._forward_pre_hooks
    attach(family.model)
    attach(family.model)
    assert bias_of(attention) is not None and len(hooks) == 1
    detach(family.model)
    assert bias_of(attention) is None and not hooks


def test_growing_embeddings_are_refused() -> None:
    """A codec on a biased model with dynamic frequencies is an error that says what to do."""
    rope = {'rope_type': 'dynamic', 'rope_theta': 1e4, 'factor': 2.0}
    model = Qwen2ForCausalLM(Qwen2Config(**{**TEXT, 'rope_parameters': rope})).eval()
    family = Family('dynamic', model, {})
    key_projections(model)[0].bias.data.fill_(1.0)
    attach(model)
    with pytest.raises(CacheError, match='dynamic.*bias_aware=False'):
        family(CompressedCache(model.config, 'kivi4'), input_ids=text(40))
    for policy in (replace(find_policy('kivi4'), bias_aware=False), find_policy('snapkv')):
        family(CompressedCache(model.config, policy), input_ids=text(40))


def answers(model: Any, cache: Any, ids: Tensor, prompt: int) -> Tensor:
    """Return the likeliest word after the prompt and after each further token, four a step."""
    parts = [ids[:, :prompt], *ids[:, prompt:].split(4, 1)]
    with torch.no_grad():
        steps = [model(part, **{CACHE_NAME: cache}, use_cache=True).logits[0] for part in parts]
    return torch.cat(steps)[prompt - 1 :].argmax(1)


@pytest.fixture(scope='module')
def recaller() -> tuple[Any, Tensor, Tensor]:
    """Return a model with a huge bias, what it reads (1, tokens), and its answers."""
    model = make_recaller(900, seed=2)
    attach(model)
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, WORDS, (1, 350), generator=generator)
    return model, ids, answers(model, DynamicCache(config=model.config), ids, 150)


@pytest.mark.parametrize(('name', 'least', 'most'), [
    ('int8', 0.99, 0.97), ('kivi4', 0.98, 0.85), ('squat4', 0.98, 0.85), ('kivi2', 0.9, 0.6),
    ('squat2', 0.9, 0.6), ('oaken', 0.98, 0.6),
])  # fmt: skip
def test_few_bits_suffice_in_spite_of_a_huge_bias(
    name: str, least: float, most: float, recaller: tuple[Any, Tensor, Tensor]
) -> None:
    """Answers agree with the full cache; with the bias left in they do far less often."""
    model, ids, wanted = recaller
    agreement = []
    for aware in (True, False):
        policy = find_policy(name)  # with few raw tokens, since the text is short
        policy = replace(policy, bias_aware=aware, ring=min(policy.ring, 28))
        got = answers(model, CompressedCache(model.config, policy), ids, 150)
        agreement.append(float((got == wanted).float().mean()))
    assert agreement[0] >= least and agreement[1] <= most, agreement
    assert len(wanted.unique()) > 16

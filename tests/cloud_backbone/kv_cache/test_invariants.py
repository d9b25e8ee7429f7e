# SPDX-License-Identifier: Apache-2.0
"""Promises that tie policies to each other, to their papers and to prompts of any length."""

from dataclasses import replace

from cloud_backbone.kv_cache import batch_attention
from cloud_backbone.kv_cache.budgeter import share
from cloud_backbone.kv_cache.hook import attach
from cloud_backbone.kv_cache.kv_session import KVSession
from cloud_backbone.kv_cache.policy import policy_names
from cloud_backbone.kv_cache.ranking import best
import pytest
import torch
from transformers import DynamicCache

from tests.fakes.masked_attention import Oracle
from tests.fakes.small_policies import small_cache, small_limit, small_policy
from tests.fakes.tiny_models import Family, make_family, text

EVICTING = [name for name in policy_names() if name != 'full']
RAW = [name for name in EVICTING if not small_policy(name).codecs(0, 2, 16)]


@pytest.fixture(scope='module')
def llama() -> Family:
    """Return a tiny attached Llama of three layers."""
    family = make_family('llama')
    attach(family.model)
    return family


def held(session: KVSession) -> dict[int, list[list[int]]]:
    """Return the positions that each head of each layer holds."""
    places = {}
    for layer, row in session.rows.items():
        heads = torch.cat([shelf.positions for shelf in row.shelves], 1)
        places[layer] = [sorted(head[head >= 0].tolist()) for head in heads]
    return places


def test_cake_without_variance_and_preferences_is_snapkv(
    llama: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With gamma 0 and equal preferences CAKE keeps what SnapKV keeps: the same bits."""
    monkeypatch.setattr(batch_attention, 'preference', lambda *args: 1.0)
    policy = small_policy('cake')
    plain = replace(policy, scorer=replace(policy.scorer, gamma=0.0))
    cake, snapkv = small_cache(llama, plain, 24), small_cache(llama, 'snapkv', 24)
    for tokens in (60, 1, 1, 20, 1, 5, 1):
        step = text(tokens, tokens)
        assert torch.equal(llama(cake, input_ids=step), llama(snapkv, input_ids=step))
        assert held(cake.sessions[0]) == held(snapkv.sessions[0])


@pytest.mark.parametrize('wants', [(1.0, 4.0, 2.0), (9.0, 1.0, 1.0), (1.0, 1.0, 30.0)])
def test_cascade_ends_where_evicting_once_does(
    llama: Family, wants: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evicting layer by layer with shrinking shares keeps what one eviction at the end keeps."""
    waiting = list(wants)
    monkeypatch.setattr(batch_attention, 'preference', lambda *args: waiting.pop(0))
    cascade, everything = small_cache(llama, 'cake', 24), small_cache(llama, 'cake')
    llama(cascade, input_ids=text(70))
    waiting = list(wants)
    llama(everything, input_ids=text(70))
    rows = everything.sessions[0].rows
    blocks = share(9, wants, [row.most_blocks() for row in rows.values()], [1, 1, 1])
    assert len(set(blocks)) > 1
    wanted = {}
    for (layer, row), count in zip(rows.items(), blocks, strict=True):
        shelf = row.open
        slots = best(row.worth(shelf), shelf.positions, 8 * count)
        wanted[layer] = shelf.positions.gather(1, slots).tolist()
    assert held(cascade.sessions[0]) == wanted


@pytest.mark.parametrize('policy', EVICTING)
def test_prompt_shorter_than_the_window_works(llama: Family, policy: str) -> None:
    """A prompt of 1 or 3 tokens is exact until something is dropped or encoded, finite after."""
    prompt = 1 + 2 * (EVICTING.index(policy) % 2)
    cache = small_cache(llama, policy, small_limit(policy))
    library = DynamicCache(config=llama.model.config)
    for step, tokens in enumerate((prompt, 1, 1, 30, 1)):
        got = llama(cache, input_ids=text(tokens, step))
        if step < 3 and policy in RAW:
            wanted = llama(library, input_ids=text(tokens, step))
            torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
        assert got.isfinite().all()
    assert cache.get_seq_length() == prompt + 33


@pytest.mark.parametrize('policy', [*RAW, 'cake+squat4', 'veda+int8', 'h2o+kivi2'])
def test_left_padded_batch_attends_as_masked_full_attention(llama: Family, policy: str) -> None:
    """Rows of unlike length, padded on the left, attend to what they hold, in every turn."""
    cache = small_cache(llama, policy, slots=24)
    oracle = Oracle(llama, cache)
    mask = torch.zeros(2, 0, dtype=torch.long)
    for step, (long, short) in enumerate(((40, 31), (1, 1), (20, 12), (5, 2), (1, 1))):
        ids = text(2 * long, step).view(2, long)
        part = torch.ones(2, long, dtype=torch.long)
        part[1, : long - short] = 0
        mask = torch.cat([mask, part], 1)
        inputs = {
            'input_ids': ids, 'attention_mask': mask,
            'position_ids': (mask.cumsum(1) - 1).clamp(min=0)[:, -long:],
        }
        wanted, got = oracle(**inputs), llama(cache, **inputs)
        difference = (got - wanted)[part.bool()].abs().max() / wanted.abs().max()
        assert float(difference) < 1e-5
    assert oracle.dropped >= 16
    assert [len(session) for session in cache.sessions] == mask.sum(1).tolist()


def test_cache_filled_in_inference_mode_goes_on_outside(llama: Family) -> None:
    """What inference mode wrote can be changed in a later step without it."""
    cache = small_cache(llama, 'cake', 24)
    with torch.inference_mode():
        llama(cache, input_ids=text(40))
    for step in range(3):
        assert llama(cache, input_ids=text(1, step)).isfinite().all()


def test_half_precision_model_keeps_half_precision(llama: Family) -> None:
    """Under a model in bfloat16, raw slots are bfloat16 and logits stay close to full ones."""
    model = make_family.__wrapped__('llama').model.to(torch.bfloat16)
    attach(model)
    cache, library = small_cache(llama, 'snapkv', 40), DynamicCache(config=model.config)
    for tokens in (30, 1, 1):
        got = llama(cache, model, input_ids=text(tokens, tokens))
        wanted = llama(library, model, input_ids=text(tokens, tokens))
    assert cache.sessions[0].rows[0].open.codec.dtype == torch.bfloat16
    assert float((got - wanted).abs().max() / wanted.abs().max()) < 0.05

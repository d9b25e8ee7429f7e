# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
import copy
from dataclasses import replace
from typing import Any

from cloud_backbone.kv_cache.codec import Codec
from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.kivi import KiviCodec
from cloud_backbone.kv_cache.squat import SquatCodec
from cloud_backbone.kv_cache.squat_gains import factor, slow_channels_first, SquatGains
import pytest
import torch
from torch import Tensor

HEADS, GROUP, SLOTS = 2, 3, 256
SEEDS = range(4)


def steep(head_dim: int) -> Tensor:
    return 6 * torch.exp(-torch.arange(head_dim) * 10 / head_dim) + 0.04


def gentle(head_dim: int) -> Tensor:
    return 4 / (1 + torch.arange(head_dim)) ** 0.5


def queries_and_keys(
    head_dim: int, seed: int, spectrum: Callable[[int], Tensor] = steep
) -> tuple[Tensor, Tensor]:
    """Queries of a decaying spectrum (rows of GROUP heads) and keys with outlier channels."""
    generator = torch.Generator().manual_seed(seed)
    key = torch.randn(HEADS, SLOTS, head_dim, generator=generator)
    key[..., torch.randperm(head_dim, generator=generator)[:head_dim // 16]] *= 6
    axes = torch.linalg.qr(torch.randn(HEADS, head_dim, head_dim, generator=generator))[0]
    rows = torch.randn(HEADS, SLOTS * GROUP, head_dim, generator=generator)
    return (rows * spectrum(head_dim)) @ axes.mT, key


def logit_error(codec: Codec, queries: Tensor, key: Tensor) -> float:
    """Relative error of the products of queries and keys."""
    error = codec.decode_key(codec.encode_key(key)) - key
    return float((queries @ error.mT).norm() / (queries @ key.mT).norm())


def output_error(codec: Codec, queries: Tensor, key: Tensor) -> float:
    """Relative error of what attention returns, values exact."""
    value = torch.randn(key.shape, generator=torch.Generator().manual_seed(99))
    exact, rounded = (
        torch.softmax(queries @ each.mT / key.shape[-1] ** 0.5, -1) @ value
        for each in (key, codec.decode_key(codec.encode_key(key)))
    )
    return float((exact - rounded).norm() / exact.norm())


def mean_output_error(head_dim: int, bits: int, **options: Any) -> float:
    """Mean over seeds, channels taken as they lie; no options are KIVI."""
    total = 0.0
    for seed in SEEDS:
        queries, key = queries_and_keys(head_dim, seed)
        codec = SquatCodec(head_dim, HEADS, bits, **options) if options else KiviCodec(
            head_dim, bits)
        if isinstance(codec, SquatCodec):  # the metrics are compared in one order
            codec.gains = replace(codec.gains, slow_first=False)
        codec.learn(queries)
        total += output_error(codec, queries[:, ::4], key)
    return total / len(SEEDS)


@pytest.mark.parametrize('options', [
    {'form': 'paper', 'lam': 0.0}, {'form': 'paper', 'rank': 0},
    {'form': 'paper', 'channel_block': 64}, {'form': 'gram', 'channel_block': 64},
])
def test_nothing_to_correct_is_kivi(options: dict[str, Any]) -> None:
    """With lam 0, or one block of all channels, pages are those of KIVI and nothing is kept."""
    queries, key = queries_and_keys(64, 0)
    codec = SquatCodec(64, HEADS, 2, **options)
    codec.learn(queries)
    assert torch.equal(codec.encode_key(key), KiviCodec(64, 2).encode_key(key))
    assert codec.nbytes() == 0


def test_before_it_has_learned_it_is_kivi() -> None:
    """Pages of keys are those of KIVI then, those of values always."""
    queries, key = queries_and_keys(64, 0)
    codec, plain = SquatCodec(64, HEADS, 4), KiviCodec(64, 4)
    assert torch.equal(codec.encode_key(key), plain.encode_key(key))
    codec.learn(queries)
    assert not torch.equal(codec.encode_key(key), plain.encode_key(key))
    assert torch.equal(codec.encode_value(key), plain.encode_value(key))
    assert codec.layout == plain.layout and codec.key_bytes == plain.key_bytes


@pytest.mark.parametrize('form', ['gram', 'paper'])
@pytest.mark.parametrize('bits', [2, 4])
@pytest.mark.parametrize('channel_block', [1, 8, 16])
def test_queries_see_less_of_the_error(form: Any, bits: int, channel_block: int) -> None:
    """The query-weighted error is lower than that of KIVI on average over seeds."""
    mine, plain = 0.0, 0.0
    for seed in SEEDS:
        queries, key = queries_and_keys(64, seed)
        codec = SquatCodec(64, HEADS, bits, form=form, channel_block=channel_block)
        codec.learn(queries)
        mine += logit_error(codec, queries, key)
        plain += logit_error(KiviCodec(64, bits), queries, key)
    assert mine < 0.8 * plain


@pytest.mark.parametrize('bits', [2, 4])
def test_errors_are_ordered_as_expected(bits: int) -> None:
    """KIVI > paper g=32 > paper g=8 > Gram g=8 at 64 channels; g=64 counts at 128 alone."""
    small = [
        mean_output_error(64, bits),
        mean_output_error(64, bits, form='paper', channel_block=32),
        mean_output_error(64, bits, form='paper', channel_block=8),
        mean_output_error(64, bits, form='gram', channel_block=8),
    ]
    assert small == sorted(small, reverse=True)
    large = [
        mean_output_error(128, bits),
        mean_output_error(128, bits, form='paper', channel_block=64),
        mean_output_error(128, bits, form='paper', channel_block=8),
        mean_output_error(128, bits, form='gram', channel_block=8),
    ]
    assert large == sorted(large, reverse=True)


def test_channels_that_the_rotary_code_turns_slowest_are_rounded_first() -> None:
    """Where queries look most at those, that order leaves less error than the channels' own."""
    order = slow_channels_first(64)
    assert order[:4].tolist() == [31, 63, 30, 62] and order.sort().values.equal(torch.arange(64))
    slow, plain = 0.0, 0.0
    for seed in SEEDS:
        queries, key = queries_and_keys(64, seed, gentle)
        queries[..., order[:8]] *= 8
        codecs = [SquatCodec(64, HEADS, 4), SquatCodec(64, HEADS, 4)]
        codecs[1].gains = replace(codecs[1].gains, slow_first=False)
        for codec in codecs:
            codec.learn(queries)
        slow += logit_error(codecs[0], queries, key)
        plain += logit_error(codecs[1], queries, key)
    assert slow < 0.9 * plain


@pytest.mark.parametrize('slow_first', [True, False])
def test_the_order_of_the_channels_survives_a_file(slow_first: bool) -> None:
    """Gains say in which order they take channels; those that do not, as they lie."""
    gains = SquatGains.none(HEADS, 64, 8, slow_first)
    assert SquatGains.from_tensors(gains.tensors()).order.equal(gains.order)
    assert ('slow_first' in gains.tensors()) is slow_first


def test_a_short_prompt_does_not_overfit() -> None:
    """Gains of 16 rows serve other queries better than no gains; with a small ridge, worse."""
    automatic, small, plain = 0.0, 0.0, 0.0
    for seed in SEEDS:
        queries, key = queries_and_keys(64, seed, gentle)
        codecs = SquatCodec(64, HEADS, 2), SquatCodec(64, HEADS, 2, ridge=0.01)
        for codec in codecs:
            codec.learn(queries[:, :16])
        automatic += logit_error(codecs[0], queries[:, 48:], key)
        small += logit_error(codecs[1], queries[:, 48:], key)
        plain += logit_error(KiviCodec(64, 2), queries[:, 48:], key)
    assert automatic < plain < small


def test_gains_are_those_of_the_equation() -> None:
    """Each block's gain is -M_RR^-1 M_RE, transposed."""
    queries, _ = queries_and_keys(32, 0)
    metric = (queries.mT @ queries).double() / queries.shape[1] + 0.1 * torch.eye(32)
    gains = SquatGains(factor(metric, 8)[0], 32, 8)
    for block in range(gains.blocks):
        start, stop = 8 * block, 8 * block + 8
        expected = -torch.linalg.solve(metric[:, stop:, stop:], metric[:, stop:, start:stop]).mT
        torch.testing.assert_close(gains.block(block).double(), expected, rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize('form', ['gram', 'paper'])
def test_chunks_teach_what_the_whole_does(form: Any) -> None:
    """A prompt in chunks ends in the same gains, though only gains are kept in between."""
    queries, _ = queries_and_keys(64, 0)
    whole, pieces = (SquatCodec(64, HEADS, 4, form=form, rank=64) for _ in range(2))
    whole.learn(queries)
    for chunk in queries.split(48, dim=1):
        pieces.learn(chunk)
    torch.testing.assert_close(
        pieces.gains.table.float(), whole.gains.table.float(), rtol=0.05, atol=0.02
    )


@pytest.mark.parametrize('channel_block', [1, 8, 32])
def test_bytes_are_those_of_the_tensors(channel_block: int) -> None:
    """Gains take d^2 / 2 (1 - g / d) float16 a head, pivots d g float32; shared gains nothing."""
    queries, _ = queries_and_keys(64, 0)
    codec = SquatCodec(64, HEADS, 4, channel_block=channel_block)
    assert codec.nbytes() == 0
    codec.learn(queries)
    kept = [each for key, each in codec.tensors().items() if key in ('gains', 'pivots')]
    elements = 64 * 64 // 2 - 64 * channel_block // 2
    assert codec.nbytes() == sum(each.nbytes for each in kept)
    assert codec.nbytes() == HEADS * (2 * elements + 4 * 64 * channel_block)
    assert SquatCodec(64, HEADS, 4, gains=codec.gains).nbytes() == 0


def test_shared_gains_are_used_and_not_changed() -> None:
    """A table made offline is as good as the queries it was made of, and stays as it is."""
    queries, key = queries_and_keys(64, 0)
    gram = queries.mT @ queries / queries.shape[1]
    own = SquatCodec(64, HEADS, 4, ridge=0.01)
    own.learn(queries)
    shared = SquatCodec(64, HEADS, 4, gains=SquatGains.from_gram(gram, 8, 0.01))
    shared.learn(-queries.flip(-1))
    mine, theirs = logit_error(own, queries, key), logit_error(shared, queries, key)
    assert theirs == pytest.approx(mine, rel=0.02)


def test_what_was_learned_survives_a_file() -> None:
    """A codec that takes back the tensors encodes and learns on as the first does."""
    queries, key = queries_and_keys(64, 0)
    first, second = SquatCodec(64, HEADS, 4), SquatCodec(64, HEADS, 4)
    assert first.tensors() == {}
    first.learn(queries[:, :300])
    second.load(first.tensors())
    assert torch.equal(second.encode_key(key), first.encode_key(key))
    for codec in (first, second):
        codec.learn(queries[:, 300:])
    assert torch.equal(second.encode_key(key), first.encode_key(key))


def test_a_broken_file_is_refused() -> None:
    """Pivots that do not belong to the gains leave the codec as it was."""
    queries, _ = queries_and_keys(64, 0)
    first, second = SquatCodec(64, HEADS, 4), SquatCodec(64, HEADS, 4)
    first.learn(queries)
    good = first.tensors()
    for name in ('pivots', 'rows'):
        with pytest.raises(CacheError, match='pivots'):
            second.load({key: each for key, each in good.items() if key != name})
    with pytest.raises(CacheError, match='pivots'):
        second.load({**good, 'pivots': good['pivots'][:, 1:]})
    assert second.tensors() == {}


def test_a_copy_learns_for_itself() -> None:
    """Pages of the first stay the same when its copy has seen more queries."""
    queries, key = queries_and_keys(64, 0)
    first = SquatCodec(64, HEADS, 4)
    first.learn(queries[:, :300])
    before = first.encode_key(key)
    copy.deepcopy(first).learn(queries[:, 300:])
    copy.copy(first).learn(queries[:, 300:])
    assert torch.equal(first.encode_key(key), before)


@pytest.mark.parametrize('form', ['gram', 'paper'])
@pytest.mark.parametrize('fill', [0.0, 1.0, 1e-30, 1e12, 1e30, float('nan'), float('inf')])
def test_strange_queries_never_give_nan(form: Any, fill: float) -> None:
    """Zero, equal, huge and broken queries leave finite keys, before and after good ones."""
    queries, key = queries_and_keys(64, 0)
    codec = SquatCodec(64, HEADS, 4, form=form)
    for each in (torch.full_like(queries, fill), queries, torch.full_like(queries, fill)):
        codec.learn(each)
        assert codec.decode_key(codec.encode_key(key)).isfinite().all()
    assert codec.learn(queries[:, :0]) is None


def test_what_cannot_be_is_refused() -> None:
    """Each message names what was given."""
    form: Any = 'cubic'
    with pytest.raises(CacheError, match='cubic'):
        SquatCodec(64, HEADS, 4, form=form)
    with pytest.raises(CacheError, match='channel_block 7 does not divide head_dim 64'):
        SquatCodec(64, HEADS, 4, channel_block=7)
    with pytest.raises(CacheError, match='ridge 0'):
        SquatCodec(64, HEADS, 4, ridge=0.0)
    with pytest.raises(CacheError, match='lam -1'):
        SquatCodec(64, HEADS, 4, form='paper', lam=-1.0)
    with pytest.raises(CacheError, match='not of 3 of 64'):
        SquatCodec(64, 3, 4, gains=SquatGains.none(2, 64, 8))


def test_a_broken_table_is_refused() -> None:
    """A file whose tensors contradict each other, or hold NaN, gives no gains."""
    good = SquatGains.from_gram(torch.eye(64).repeat(2, 1, 1), 8).tensors()
    SquatGains.from_tensors(good)
    for part in (
        {'gains': good['gains'][:, :-1]},
        {'gains': good['gains'] * float('nan')},
        {'shape': torch.tensor([64, 7])},
        {'shape': torch.tensor([64])},
    ):
        with pytest.raises(CacheError):
            SquatGains.from_tensors({**good, **part})
    with pytest.raises(CacheError, match='lack shape'):
        SquatGains.from_tensors({'gains': good['gains']})

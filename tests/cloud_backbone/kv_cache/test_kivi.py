# SPDX-License-Identifier: Apache-2.0
from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.kivi import KiviCodec, round_down, value_span
import pytest
import torch
from torch import Tensor


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def by_hand(values: Tensor, bits: int, axis: int) -> Tensor:
    """Round to 2**bits levels between the smallest and largest along an axis."""
    low, high = values.amin(axis, keepdim=True), values.amax(axis, keepdim=True)
    step = (high - low) / (2**bits - 1)
    return low + step * ((values - low) / step).round()


@pytest.mark.parametrize('bits', [2, 4])
def test_keys_are_rounded_by_channel_and_values_by_slot(bits: int) -> None:
    """The result is that of the equations, up to the float16 of scale and minimum."""
    codec, given = KiviCodec(64, bits), normal(2, 96, 64)
    keys = by_hand(given.unflatten(1, (3, 32)), bits, 2).flatten(1, 2)
    values = by_hand(given.unflatten(2, (2, 32)), bits, 3).flatten(2)
    for back, expected in (
        (codec.decode_key(codec.encode_key(given)), keys),
        (codec.decode_value(codec.encode_value(given)), values),
    ):
        off = (back - expected).abs() > 0.01
        assert off.float().mean() < 0.01


@pytest.mark.parametrize(('bits', 'key_bytes', 'value_bytes'), [(2, 768, 768), (4, 1280, 1280)])
def test_bits_of_a_number(bits: int, key_bytes: int, value_bytes: int) -> None:
    """Scale and minimum of 32 numbers add one bit to each: 3 and 5 bits."""
    codec = KiviCodec(64, bits)
    assert (codec.key_bytes, codec.value_bytes) == (key_bytes, value_bytes)
    assert codec.key_bytes * 8 == (bits + 1) * 32 * 64
    assert codec.layout == f'grouped{bits}' and codec.group == 32


def test_a_page_is_laid_out_as_stated() -> None:
    """Codes, then scales, then minima, each where other readers of the page look for them."""
    codec, given = KiviCodec(16, 4, 8), torch.zeros(1, 8, 16)
    given[0, 3, 5], given[0, 3, 13] = 15.0, 30.0
    page = codec.encode_key(given)[0, 0]
    codes, bounds = page[:64].view(8, 8), page[64:].view(torch.float16).view(2, 16)
    assert codes[3].tolist() == [0, 0, 0, 0, 0, 15 | 15 << 4, 0, 0]
    assert bounds[0, 5] == 1 and bounds[0, 13] == 2 and bounds.sum() == 3
    page = codec.encode_value(given)[0, 0]
    codes, bounds = page[:64].view(8, 8), page[64:].view(torch.float16).view(2, 8)
    assert codes[3, 5].item() == 8 | 15 << 4
    assert bounds[0].tolist() == [0, 0, 0, 2, 0, 0, 0, 0] and bounds[1].sum() == 0


def test_an_outlier_channel_costs_the_others_nothing() -> None:
    """Keys are rounded by channel because some channels are far larger than the rest."""
    codec, given = KiviCodec(64, 4), normal(1, 32, 64)
    loud = given.clone()
    loud[..., 7] *= 1000
    rest = [channel for channel in range(64) if channel != 7]
    quiet = codec.decode_key(codec.encode_key(given))
    assert torch.equal(codec.decode_key(codec.encode_key(loud))[..., rest], quiet[..., rest])


@pytest.mark.parametrize('offset', [2000, -2000])
def test_a_large_offset_does_not_clip(offset: float) -> None:
    """Where float16 counts in whole numbers, no value is further off than half a step."""
    codec, given = KiviCodec(64, 4), normal(1, 32, 64) + offset
    float16_step = 1.0
    step = (given.amax(1) - given.amin(1) + float16_step) / 15
    error = (codec.decode_key(codec.encode_key(given)) - given).abs().amax(1)
    assert (error < 0.52 * step).all()


def test_rounding_down_never_rounds_up() -> None:
    """The float16 is at most the number (but for the tiniest) and at most two steps below."""
    values = torch.cat([normal(4000) * 10.0**power for power in range(-3, 5)])
    values = values.clamp(-65504, 65504)
    rounded = round_down(values).float()
    assert (rounded <= values + 3e-8).all()
    assert (values - rounded <= 2 * values.abs() * 2**-10 + 1e-7).all()


@pytest.mark.parametrize(('head_dim', 'span'), [(16, 16), (64, 32), (80, 16), (96, 32), (24, 24)])
def test_spans_divide_every_head(head_dim: int, span: int) -> None:
    """Heads of 80 channels have no even spans of 32."""
    assert value_span(head_dim) == span


def test_other_widths_are_refused() -> None:
    """The message names the widths there are."""
    with pytest.raises(CacheError, match=r'3 bits.*\(2, 4\)'):
        KiviCodec(64, 3)

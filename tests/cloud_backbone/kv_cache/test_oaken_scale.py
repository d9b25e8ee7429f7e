# SPDX-License-Identifier: Apache-2.0

from cloud_backbone.kv_cache.oaken_scale import decode_scale, encode_scale
import torch


def test_scales_are_within_three_percent_over_twenty_octaves() -> None:
    """From 2^-8 to 2^13 the nearest code is less than half a step of a twelfth octave off."""
    peak = torch.logspace(-8, 13, 2_000, base=2)
    ratio = decode_scale(encode_scale(peak)) / peak
    assert float(ratio.log2().abs().max()) <= 1 / 24 + 1e-5


def test_every_code_comes_back() -> None:
    """Decoding and encoding again gives the same byte."""
    codes = torch.arange(256, dtype=torch.uint8)
    assert torch.equal(encode_scale(decode_scale(codes)), codes)


def test_zero_and_the_extremes_are_defined() -> None:
    """No peak is code 0; what is too small or too large takes the nearest code."""
    codes = encode_scale(torch.tensor([0.0, 1e-40, 1.0, 3e38, float('inf')]))
    assert codes.tolist() == [0, 1, 97, 255, 255]
    assert decode_scale(codes)[0] == 0 and decode_scale(codes).isfinite().all()

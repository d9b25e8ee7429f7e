# SPDX-License-Identifier: Apache-2.0

from cloud_backbone.kv_cache.errors import CalibrationError
from cloud_backbone.kv_cache.oaken import OakenCodec
from cloud_backbone.kv_cache.oaken_edges import GroupEdges, OakenShares, OakenThresholds
import pytest
import torch
from torch import Tensor

HEADS = 2


def heavy(tokens: int, head_dim: int = 64, seed: int = 0, bias: float = 0.0) -> Tensor:
    """Draw keys with a few heavy channels and tokens of unequal size."""
    generator = torch.Generator().manual_seed(seed)
    channels = torch.linspace(0.5, 1.5, head_dim)
    channels[3::29] = 4
    tall = torch.randn(HEADS, tokens, 1, generator=generator).mul(0.2).exp()
    return torch.randn(HEADS, tokens, head_dim, generator=generator) * channels * tall + bias


def error(back: Tensor, given: Tensor) -> float:
    return float((back - given).norm() / given.norm())


def uniform(x: Tensor, bits: int) -> Tensor:
    """Round each slot to equal steps between its minimum and maximum, stored exactly."""
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    step = (high - low) / (2**bits - 1)
    return ((x - low) / step).round() * step + low


def calibrated(head_dim: int = 64, slots: int = 32, bias: float = 0.0, room: float = 0.125,
               shares: OakenShares | None = None) -> OakenCodec:
    key, value = heavy(1024, head_dim, 10, bias), heavy(1024, head_dim, 11, bias)
    thresholds = OakenThresholds.from_samples(key, value, shares)
    return OakenCodec(head_dim, slots, thresholds, room=room)


def round_trip(codec: OakenCodec, x: Tensor) -> Tensor:
    return codec.decode_key(codec.encode_key(x))


@pytest.mark.parametrize('head_dim', [16, 32, 64, 128])
@pytest.mark.parametrize('bias', [0.0, 30.0, -30.0])
def test_calibrated_data_falls_into_the_groups_as_planned(head_dim: int, bias: float) -> None:
    """Fresh data of the same kind is 4 % outer and 6 % inner to 1 %, on either side of zero."""
    codec = calibrated(head_dim, bias=bias)
    codec.encode_key(heavy(1024, head_dim, 1, bias))
    assert codec.key.counts.outer_share == pytest.approx(0.04, abs=0.01)
    assert codec.key.counts.inner_share == pytest.approx(0.06, abs=0.01)
    assert codec.key.counts.drift(OakenShares()) < 0.01


def test_error_is_far_below_four_uniform_bits() -> None:
    """Less than 0.7 of the error of 4 uniform bits a slot with exact scales; above 5 bits'."""
    x = heavy(1024, seed=1)
    found = error(round_trip(calibrated(), x), x)
    assert error(uniform(x, 5), x) < found < 0.7 * error(uniform(x, 4), x)


def test_error_falls_as_more_elements_are_sparse() -> None:
    """Shares of 2, 4, 8 and 12 % outer are ever closer to the data."""
    x = heavy(1024, seed=1)
    errors = [
        error(round_trip(calibrated(room=0.3, shares=OakenShares(outer, 0.06)), x), x)
        for outer in (0.02, 0.04, 0.08, 0.12)
    ]
    assert errors == sorted(errors, reverse=True) and errors[-1] < 0.8 * errors[0]


@pytest.mark.parametrize('bias', [30.0, -30.0])
def test_a_bias_costs_nothing(bias: float) -> None:
    """With all thresholds on one side of zero, the error is that of the same data around zero."""
    x = heavy(256, seed=1)
    plain = (round_trip(calibrated(), x) - x).norm()
    biased = (round_trip(calibrated(bias=bias), x + bias) - x - bias).norm()
    assert biased == pytest.approx(float(plain), rel=0.02)


def test_no_element_is_further_off_than_its_cell_allows() -> None:
    """Half a cell, or a little more at the peak, for a scale is up to 3 % off."""
    codec, x = calibrated(), heavy(64, seed=1)
    edges = codec.key.edges
    assert edges is not None
    low, inner_low, inner_high, high = edges.edges[:, :, None, None].unbind(1)
    off = (round_trip(codec, x) - x).abs()
    upper = x >= (inner_low + inner_high) / 2
    width = torch.where(upper, high - inner_high, inner_low - low)
    beyond = torch.maximum(x - high, low - x) / width
    outer, inner = beyond > 0, (x > inner_low) & (x < inner_high)
    peak = beyond.amax(-1, keepdim=True).expand_as(x)
    half = ((inner_high - inner_low) / 2).expand_as(x)
    assert bool((off[inner] <= half[inner] / 32 * 1.001).all())
    assert bool((off[~outer & ~inner] <= width[~outer & ~inner] * 0.1).all())
    assert bool((off[outer] <= (width * peak)[outer] * 0.07).all())


def test_slots_know_nothing_of_each_other() -> None:
    """What comes later, however large, does not change how a slot is stored."""
    codec, x = calibrated(), heavy(32, seed=1)
    before = round_trip(codec, x)
    x[:, 20:] *= 1.5
    assert torch.equal(round_trip(codec, x)[:, :20], before[:, :20])


def test_a_full_page_gives_up_what_costs_least() -> None:
    """Inner elements spill before outer ones, each block to its last byte, and are counted."""
    x = heavy(256, seed=1)
    rich, poor, bare = calibrated(room=0.2), calibrated(room=0.07), calibrated(room=0.0)
    kept = poor.key.page.unpack(poor.encode_key(x)).mark
    whole = rich.key.page.unpack(rich.encode_key(x)).mark
    capacity = poor.key.page.capacity
    assert bool((kept.bool().flatten(2).sum(-1) == capacity).all())
    assert torch.equal(kept % 2 == 0, torch.where(kept > 0, whole % 2 == 0, kept % 2 == 0))
    assert int((kept == 2).sum() + (kept == 4).sum()) == rich.key.counts.outer
    assert rich.key.counts.spilled == 0
    assert poor.key.counts.spilled == rich.key.counts.kept - int(kept.count_nonzero())
    errors = [error(round_trip(codec, x), x) for codec in (rich, poor, bare)]
    assert errors == sorted(errors) and errors[1] < 1.1 * errors[0]


def test_data_far_from_the_thresholds_is_still_stored_in_four_bits() -> None:
    """Keys ten times what was calibrated: most spill, no worse than sign and 3 bits a slot."""
    x = 10 * heavy(256, seed=1)
    codec = calibrated()
    peak = x.abs().amax(-1, keepdim=True)
    three = ((x.abs() / peak * 8).floor().clamp(max=7) + 0.5) / 8 * peak * x.sign()
    assert error(round_trip(codec, x), x) < error(three, x)
    assert codec.key.counts.stale(OakenShares()) and codec.key.counts.spilled_share > 0.5


def test_writing_slots_leaves_all_other_codes() -> None:
    """Slots outside the mask keep codes and marks, also in a page that is full."""
    codec, x = calibrated(room=0.07), heavy(96, seed=1)
    pages = codec.encode_key(x)
    mask = torch.rand(HEADS, 3, 32, generator=torch.Generator().manual_seed(2)) > 0.7
    mask[:, 1] = False
    fresh = 2 * heavy(96, seed=3).view(HEADS, 3, 32, 64)
    written = codec.write_key(pages, mask, fresh.masked_fill(~mask[..., None], float('nan')))
    assert torch.equal(written[:, 1], pages[:, 1])
    for new, old in zip(codec.key.page.unpack(written), codec.key.page.unpack(pages), strict=True):
        assert torch.equal(new[~mask], old[~mask])
    back = codec.decode_key(written).view_as(fresh)
    assert error(back[mask], fresh[mask]) < 0.2


def test_slots_that_fill_up_a_block_leave_room_for_those_to_come() -> None:
    """A block of one heavy slot and its copies, then written slot by slot, is as good as whole."""
    x = heavy(32, seed=1)
    x[:, 0] *= 2.5
    codec = calibrated()
    pages = codec.encode_key(x[:, :1].expand(-1, 32, -1))
    for slot in range(1, 32):
        mask = torch.zeros(HEADS, 1, 32, dtype=torch.bool)
        mask[..., slot] = True
        pages = codec.write_key(pages, mask, x[:, None])
    assert torch.equal(codec.decode_key(pages), round_trip(codec, x))


@pytest.mark.parametrize('calibration', [0.0, 2.5, -2.5, 1e-40])
@pytest.mark.parametrize('value', [0.0, 1e-40, 2.5, -1e4, 3e38])
def test_constants_are_defined(calibration: float, value: float) -> None:
    """Thresholds that coincide and slots without spread give finite numbers."""
    same = torch.full((HEADS, 64, 64), calibration)
    codec = OakenCodec(64, 32, OakenThresholds.from_samples(same, same))
    back = round_trip(codec, torch.full((HEADS, 64, 64), value))
    assert bool(back.isfinite().all())
    if value == calibration:
        torch.testing.assert_close(back, torch.full_like(back, value), rtol=0, atol=1e-30)


@pytest.mark.parametrize('calibration', [0.0, -2.5])
def test_thresholds_that_coincide_still_store_other_values(calibration: float) -> None:
    """Calibrated on a constant, a codec keeps what is not that constant to a tenth of the gap."""
    same = torch.full((HEADS, 64, 64), calibration)
    codec, x = OakenCodec(64, 32, OakenThresholds.from_samples(same, same)), heavy(64, seed=1)
    peak = (x - calibration).abs().amax()
    assert float((round_trip(codec, x) - x).abs().max()) < 0.1 * peak


@pytest.mark.parametrize('size', [1.0, 1e38])
def test_any_page_decodes_to_finite_numbers(size: float) -> None:
    """Garbage in a dead slot never becomes NaN or infinity, whatever the thresholds."""
    samples = heavy(256).clamp(-3, 3) * size
    codec = OakenCodec(64, 32, OakenThresholds.from_samples(samples, samples))
    generator = torch.Generator().manual_seed(0)
    shape = (HEADS, 5, codec.key_bytes)
    pages = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    assert bool(codec.decode_value(pages).isfinite().all())


def test_without_calibration_the_first_prompt_serves() -> None:
    """Thresholds then come from what is first encoded, stay, and count as the session's bytes."""
    codec, x = OakenCodec(64), heavy(256, seed=1)
    assert codec.nbytes() == 0
    with pytest.raises(CalibrationError, match='before any thresholds'):
        codec.decode_key(torch.zeros(HEADS, 1, codec.key_bytes, dtype=torch.uint8))
    assert error(round_trip(codec, x), x) == pytest.approx(
        error(round_trip(calibrated(), x), x), rel=0.1
    )
    codec.encode_value(x)
    learned = codec.key.edges
    codec.encode_key(5 * x)
    assert codec.key.edges is learned
    assert codec.nbytes() == 2 * HEADS * 8 * 4
    assert calibrated().nbytes() == 0


def test_a_first_write_learns_from_the_written_slots_only() -> None:
    """What lies outside the mask is garbage, NaN included, and sets no threshold."""
    x, mask = heavy(32, seed=1)[:, None], torch.zeros(HEADS, 1, 32, dtype=torch.bool)
    mask[..., :16] = True
    codec = OakenCodec(64)
    pages = torch.zeros(HEADS, 1, codec.key_bytes, dtype=torch.uint8)
    codec.write_key(pages, mask, x.masked_fill(~mask[..., None], float('nan')))
    assert codec.key.edges is not None and codec.key.counts.elements == HEADS * 16 * 64
    assert torch.equal(codec.key.edges.edges, GroupEdges.from_samples(x[:, 0, :16]).edges)
    mask[1] = ~mask[1]
    written = codec.write_value(pages, mask, x.masked_fill(~mask[..., None], float('nan')))
    assert bool(codec.decode_value(written).isfinite().all())


def test_thresholds_for_other_heads_are_refused() -> None:
    """A calibration of another shape is an error, not a broadcast."""
    with pytest.raises(CalibrationError, match='for 2 KV heads, the layer has 1'):
        calibrated().encode_key(heavy(32)[:1])

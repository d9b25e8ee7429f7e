# SPDX-License-Identifier: Apache-2.0
"""The sketch of quantiles against sorting."""

from cloud_backbone.kv_cache.errors import CalibrationError
from cloud_backbone.kv_cache.streaming_quantile import QuantileSketch
import pytest
import torch

POINTS = (0.02, 0.47, 0.53, 0.98)


def test_quantiles_agree_with_sorting_however_the_stream_is_cut() -> None:
    """The rank of each quantile is right to 0.2 %, for skewed streams in pieces of any size."""
    generator = torch.Generator().manual_seed(0)
    samples = torch.stack([
        torch.randn(100_000, generator=generator).exp(),
        torch.randn(100_000, generator=generator) * 3 - 40,
    ])
    sketch = QuantileSketch(2)
    for piece in samples.split([1, 99, 900, 9_000, 90_000], -1):
        sketch.update(piece)
    found = sketch.quantiles(POINTS)
    ranks = (samples[:, None] < found[..., None]).float().mean(-1)
    assert (ranks - torch.tensor(POINTS)).abs().max() < 0.002


def test_memory_does_not_grow_with_the_stream() -> None:
    """A stream that comes in order, the worst case, is held in as many numbers as any other."""
    sketch = QuantileSketch(1, size=256)
    for piece in torch.arange(50_000.0).split(1_000):
        sketch.update(piece[None])
    assert sketch._mean.shape == sketch._weight.shape == (1, 256)
    assert abs(float(sketch.quantiles((0.5,))) - 25_000) < 500


def test_few_and_equal_samples_have_quantiles() -> None:
    """One sample is all its quantiles; equal samples too."""
    sketch = QuantileSketch(1)
    sketch.update(torch.tensor([[-3.5]]))
    assert sketch.quantiles(POINTS).tolist() == [[-3.5] * 4]
    sketch.update(torch.full((1, 5_000), -3.5))
    assert sketch.quantiles(POINTS).tolist() == [[-3.5] * 4]


@pytest.mark.parametrize('bad', [float('nan'), float('inf')])
def test_samples_must_be_finite(bad: float) -> None:
    """One bad number is refused and leaves the sketch as it was."""
    sketch = QuantileSketch(1)
    sketch.update(torch.ones(1, 10))
    with pytest.raises(CalibrationError, match='NaN or infinity'):
        sketch.update(torch.tensor([[1.0, bad]]))
    assert sketch.quantiles((0.5,)).tolist() == [[1.0]]


def test_an_empty_stream_has_no_quantile() -> None:
    """Nothing seen is an error, not a zero."""
    with pytest.raises(CalibrationError, match='no samples'):
        QuantileSketch(1).quantiles(POINTS)

# SPDX-License-Identifier: Apache-2.0

from collections.abc import Iterator
import json
from pathlib import Path

from cloud_backbone.kv_cache.errors import CalibrationError
from cloud_backbone.kv_cache.oaken_calibration import OakenCalibration
from cloud_backbone.kv_cache.oaken_drift import GroupCounts
from cloud_backbone.kv_cache.oaken_edges import GroupEdges, OakenShares
import pytest
import torch
from torch import Tensor

LAYERS, HEADS, HEAD_DIM = 3, 2, 16


def prompts(count: int = 4) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Prompts of unequal length; each layer and head has its own spread."""
    generator = torch.Generator().manual_seed(0)
    spread = 1 + torch.arange(LAYERS * HEADS * 2.0).view(LAYERS, 2, HEADS, 1, 1)
    for prompt in range(count):
        shape = (LAYERS, 2, HEADS, 300 + 100 * prompt, HEAD_DIM)
        yield [(k, v) for k, v in torch.randn(shape, generator=generator) * spread]


@pytest.fixture(scope='module')
def calibration() -> OakenCalibration:
    return OakenCalibration.collect(prompts(), model='model-a', corpus='corpus-1')


def test_thresholds_are_the_quantiles_of_all_prompts(calibration: OakenCalibration) -> None:
    """Each layer, head and side has its own, as sorting all prompts together would find."""
    everything = [torch.cat(parts, 1) for parts in zip(*(
        [torch.cat([k, v]) for k, v in layers] for layers in prompts()
    ), strict=True)]
    points = torch.tensor(OakenShares().points)
    for layer, samples in enumerate(everything):
        exact = samples.flatten(1).quantile(points, dim=1).T
        found = torch.cat([calibration[layer].key.edges, calibration[layer].value.edges])
        assert (found - exact).abs().max() < 0.03 * exact.abs().max()
    assert len(calibration.layers) == LAYERS


def test_a_file_brings_back_every_bit(calibration: OakenCalibration, tmp_path: Path) -> None:
    """Saved and loaded, thresholds and digest are the same, and no other file is left."""
    path = tmp_path / 'oaken.json'
    calibration.save(path)
    back = OakenCalibration.load(path, model='model-a')
    assert back.digest == calibration.digest and back.corpus == 'corpus-1'
    for one, other in zip(back.layers, calibration.layers, strict=True):
        assert torch.equal(one.key.edges, other.key.edges)
        assert torch.equal(one.value.edges, other.value.edges)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_of_another_model_is_refused(calibration: OakenCalibration, tmp_path: Path) -> None:
    """The error names both models."""
    calibration.save(tmp_path / 'oaken.json')
    with pytest.raises(CalibrationError, match=r'model-a, this is model model-b'):
        OakenCalibration.load(tmp_path / 'oaken.json', model='model-b')


@pytest.mark.parametrize('damage', ['cut', 'digit', 'format', 'shape', 'type'])
def test_a_damaged_file_is_refused(
    calibration: OakenCalibration, tmp_path: Path, damage: str
) -> None:
    """Whatever is wrong with it, the error names the file."""
    path = tmp_path / 'oaken.json'
    calibration.save(path)
    content = json.loads(path.read_text())
    if damage == 'digit':
        content['key'][0][0][3] += 1
    if damage == 'format':
        content['format'] = 'oaken-thresholds-0'
    if damage == 'shape':
        content['value'].pop()
    if damage == 'type':
        content = [content]
    text = json.dumps(content)
    path.write_text(text[:-40] if damage == 'cut' else text)
    with pytest.raises(CalibrationError, match='oaken.json'):
        OakenCalibration.load(path, model='model-a')


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """No file is a calibration error too: the caller's answer is the same."""
    with pytest.raises(CalibrationError, match='none.json'):
        OakenCalibration.load(tmp_path / 'none.json', model='model-a')


def test_nothing_to_learn_from_is_an_error() -> None:
    """No prompt, no thresholds."""
    with pytest.raises(CalibrationError, match='no prompts'):
        OakenCalibration.collect([], model='model-a', corpus='none')


@pytest.mark.parametrize('edges', [[1.0, 0.0, 2.0, 3.0], [0.0, 0.0, float('nan'), 1.0]])
def test_thresholds_must_ascend(edges: list[float]) -> None:
    """Thresholds out of order or not finite are refused."""
    with pytest.raises(CalibrationError, match='finite and ascend'):
        GroupEdges(torch.tensor([edges]))
    with pytest.raises(CalibrationError, match=r'\(kv_heads, 4\), not \(4,\)'):
        GroupEdges(torch.tensor(edges))


@pytest.mark.parametrize('shares', [(-0.1, 0.1), (0.5, 0.5), (float('nan'), 0.1)])
def test_impossible_shares_are_refused(shares: tuple[float, float]) -> None:
    """Shares are at least 0 and leave something for the middle."""
    with pytest.raises(ValueError, match='at least 0'):
        OakenShares(*shares)


def test_drift_is_told_only_when_enough_was_seen() -> None:
    """A few odd elements are no drift; many are, in either group."""
    calibrated = OakenShares()
    assert not GroupCounts(elements=100, outer=50).stale(calibrated)
    assert not GroupCounts(elements=100_000, outer=5_000, inner=6_500).stale(calibrated)
    assert GroupCounts(elements=100_000, outer=12_000, inner=6_000).stale(calibrated)
    assert GroupCounts(elements=100_000, outer=4_000, inner=1_000).stale(calibrated)
    assert not GroupCounts().stale(calibrated)

# SPDX-License-Identifier: Apache-2.0
"""Promises of the file of shared gains: the same gains come back, and only for their model."""

from pathlib import Path

from cloud_backbone.kv_cache.errors import CalibrationError
from cloud_backbone.kv_cache.squat import SquatCodec
from cloud_backbone.kv_cache.squat_gains import SquatGains
from cloud_backbone.kv_cache.squat_table import SquatTable
import pytest
from safetensors.torch import save_file
import torch


@pytest.fixture
def table() -> SquatTable:
    """Return the gains of three layers."""
    queries = torch.randn(3, 2, 100, 16, generator=torch.Generator().manual_seed(0))
    gains = [SquatGains.from_gram(layer.mT @ layer / 100, 8) for layer in queries]
    return SquatTable('digest', tuple(gains))


def test_gains_come_back(table: SquatTable, tmp_path: Path) -> None:
    """A codec that is given them writes the same pages, and owns no bytes of them."""
    path = tmp_path / 'folder' / 'gains.safetensors'
    table.save(path)
    read = SquatTable.load(path, model='digest')
    key = torch.randn(2, 8, 16, generator=torch.Generator().manual_seed(1))
    for gains, again in zip(table.layers, read.layers, strict=True):
        first, second = (SquatCodec(16, 2, 4, 8, gains=each) for each in (gains, again))
        assert torch.equal(first.encode_key(key), second.encode_key(key))
        assert second.nbytes() == second.learned_bytes(2) == 0
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_other_model_is_refused(table: SquatTable, tmp_path: Path) -> None:
    """The message names both models."""
    table.save(tmp_path / 'gains')
    with pytest.raises(CalibrationError, match='for model digest, this is model other'):
        SquatTable.load(tmp_path / 'gains', model='other')


@pytest.mark.parametrize('kind', ['missing', 'garbage', 'names', 'layers', 'nan'])
def test_broken_file_is_refused(table: SquatTable, tmp_path: Path, kind: str) -> None:
    """Whatever is wrong with it, the error says which file it is."""
    path = tmp_path / 'gains'
    tensors = {f'0.{name}': tensor for name, tensor in table.layers[0].tensors().items()}
    if kind == 'garbage':
        path.write_bytes(b'no tensors')
    elif kind == 'names':
        save_file({'weights': torch.zeros(2)}, path, {'model': 'digest'})
    elif kind == 'layers':
        moved = {name.replace('0.', '1.', 1): tensor for name, tensor in tensors.items()}
        save_file(moved, path, {'model': 'digest'})
    elif kind == 'nan':
        tensors['0.gains'][0, 0] = torch.nan
        save_file(tensors, path, {'model': 'digest'})
    with pytest.raises(CalibrationError, match=str(path)):
        SquatTable.load(path, model='digest')

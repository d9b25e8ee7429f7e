# SPDX-License-Identifier: Apache-2.0
"""Promises of files of which every byte is checked."""

from pathlib import Path

from cloud_backbone.kv_state.checked_tensors import decode, DTYPES, encode
from cloud_backbone.kv_state.errors import Corrupt
import pytest
from safetensors.torch import load_file
import torch

META = {'words': ['a', 'ä\n"\\'], 'number': 0.1, 'nothing': None, 'nested': {'7': [1, 2]}}


def tensors() -> dict[str, torch.Tensor]:
    """Return a tensor of each type, and some of odd shapes."""
    numbers = torch.arange(12).reshape(3, 4)
    every = {name: numbers.to(dtype) for name, dtype in DTYPES.items()}
    return {
        **every, 'none': torch.empty(2, 0, 3), 'one': torch.tensor(2.5),
        'turned': numbers.float().T,
    }


def whole() -> bytearray:
    """Return a file as bytes."""
    return bytearray(b''.join(encode(tensors(), META)))


def test_what_was_written_comes_back() -> None:
    """Types, shapes, bits and words are as they were, for transposed and empty tensors too."""
    found, meta = decode(whole())
    assert meta == META
    assert found.keys() == tensors().keys()
    for name, tensor in tensors().items():
        assert found[name].dtype == tensor.dtype, name
        assert torch.equal(found[name], tensor), name


def test_any_reader_of_safetensors_can_read_it(tmp_path: Path) -> None:
    """The file is an ordinary one of the format."""
    path = tmp_path / 'a.safetensors'
    path.write_bytes(whole())
    for name, tensor in load_file(path).items():
        assert torch.equal(tensor, tensors()[name]), name


def test_one_wrong_byte_anywhere_is_noticed() -> None:
    """Whichever byte changes, and however, the answer is Corrupt and never other tensors."""
    good = whole()
    for place in range(len(good)):
        for change in (0x01, 0x20, 0x80, 0xFF):
            bad = bytearray(good)
            bad[place] ^= change
            with pytest.raises(Corrupt):
                decode(bad)


def test_message_names_the_tensor() -> None:
    """Damage to one tensor says which one it is."""
    bad = whole()
    bad[-1] ^= 1
    last = sorted(tensors(), key=lambda name: (-tensors()[name].element_size(), name))[-1]
    with pytest.raises(Corrupt, match=f'mine: tensor {last} is damaged') as caught:
        decode(bad, 'mine')
    assert caught.value.chunk == f'mine: tensor {last}'


def test_too_few_and_too_many_bytes_are_noticed() -> None:
    """A file that lost its end, at any byte, or got another, is Corrupt."""
    good = whole()
    for size in range(len(good)):
        with pytest.raises(Corrupt):
            decode(good[:size])
    with pytest.raises(Corrupt, match='end'):
        decode(good + b'\0')


def test_no_tensors_at_all() -> None:
    """A file of words alone is one too."""
    assert decode(bytearray(b''.join(encode({}, META)))) == ({}, META)

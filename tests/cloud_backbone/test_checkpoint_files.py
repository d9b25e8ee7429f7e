# SPDX-License-Identifier: Apache-2.0
"""Promises about checkpoint directories that are not what they should be."""

from collections.abc import Callable
from pathlib import Path
import shutil

from cloud_backbone.errors import StartError
from cloud_backbone.model.backbone import load_backbone
from cloud_backbone.model.checkpoint_files import fingerprint
import pytest


def remove(name: str) -> Callable[[Path], None]:
    """Return a damage: a file is missing."""
    return lambda path: (path / name).unlink()


def write(name: str, text: str) -> Callable[[Path], None]:
    """Return a damage: a file holds something else."""
    return lambda path: (path / name).write_text(text) and None


@pytest.fixture
def copy(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    """Return a checkpoint that may be damaged."""
    return shutil.copytree(tiny_checkpoint, tmp_path / 'copy')


@pytest.mark.parametrize(
    ('damage', 'message'),
    [
        (shutil.rmtree, 'no checkpoint directory at'),
        (remove('config.json'), 'config.json is missing'),
        (remove('model.safetensors'), r'has no weights, there is no \.safetensors file'),
        (write('config.json', '{'), 'names no model_type'),
        (write('config.json', '{"model_type": "no_such_model"}'), 'cannot load the model'),
        (write('model.safetensors', 'nonsense'), 'cannot load the model'),
        (remove('tokenizer.json'), 'cannot load the tokenizer'),
        (write('grammar.json', '{"kinds": 1}'), 'is no grammar'),
    ],
)
def test_each_damage_is_one_sentence(
    copy: Path, damage: Callable[[Path], None], message: str
) -> None:
    """What is wrong with a directory is named with its path, on one line."""
    damage(copy)
    with pytest.raises(StartError, match=message) as caught:
        load_backbone(copy)
    assert 'copy' in str(caught.value)
    assert '\n' not in str(caught.value)


def test_weights_of_another_model_are_refused(copy: Path) -> None:
    """Weights that do not fill the configured model are not padded with random ones."""
    from safetensors.torch import load_file, save_file

    weights = load_file(copy / 'model.safetensors')
    weights.pop(sorted(weights)[0])
    save_file(weights, copy / 'model.safetensors', metadata={'format': 'pt'})
    with pytest.raises(StartError, match='lacks 1 weights'):
        load_backbone(copy)


def test_fingerprint_covers_weights_configuration_and_tokenizer(copy: Path) -> None:
    """A change of any of them changes the fingerprint; a README does not."""
    before = fingerprint(copy)
    (copy / 'README.md').write_text('hello')
    assert fingerprint(copy) == before
    seen = {before}
    for name in ('config.json', 'model.safetensors', 'tokenizer.json', 'grammar.json'):
        with (copy / name).open('ab') as file:
            file.write(b' ')
        seen.add(fingerprint(copy))
    assert len(seen) == 5

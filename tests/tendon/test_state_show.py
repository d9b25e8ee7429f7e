# SPDX-License-Identifier: Apache-2.0
"""Promises of ``tendon state show``: what a file holds, in words, and what is wrong with it."""

from pathlib import Path

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.policy import find_policy
from cloud_backbone.kv_state.fingerprint import fingerprint_of
from cloud_backbone.kv_state.journal import Journal
from cloud_backbone.kv_state.journalled_state import JournalledState
from cloud_backbone.kv_state.operation import Operation
from cloud_backbone.kv_state.restore import Target
from cloud_backbone.kv_state.snapshot import (
    load_snapshot,
    save_snapshot,
    tokens_only,
)
from cloud_backbone.kv_state.transformers_model import TransformersModel
from cloud_backbone.model.checkpoint import load_checkpoint
import pytest
from tendon import cli
from tendon.errors import BadRequest
from tendon.state_show import run
from typer.testing import CliRunner

GOAL, SCRATCH = ' put the red cube in the blue bin', ' the red cube'


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    """Return the folder of a session with a snapshot and a step after it."""
    model, tokenizer = load_checkpoint(tiny_checkpoint)
    policy = find_policy('full')
    target = Target(
        TransformersModel(model), BlockPool(1 << 24), policy,
        fingerprint_of(model, policy, tokenizer),
    )
    one = JournalledState.open(tmp_path / 'session', target)
    goal = tokenizer.encode(GOAL, add_special_tokens=False)
    one.step(0, Operation('append', {'name': 'goal', 'tokens': goal}))
    one.words = {'robot': 'left_arm'}
    one.checkpoint()
    scratch = tokenizer.encode(SCRATCH, add_special_tokens=False)
    one.step(1, Operation('append', {'name': 'scratch', 'tokens': scratch, 'epoch': 4}))
    one.checkpoint()
    blue = tokenizer.encode(' the blue bin', add_special_tokens=False)
    one.step(2, Operation('append', {'name': 'scratch', 'tokens': blue * 4}))
    one.close()
    return tmp_path / 'session'


def snapshot_of(folder: Path) -> Path:
    (file,) = folder.glob('snapshot-*')
    return file


def words_of(text: str) -> str:
    """Return a text with single spaces."""
    return ' '.join(text.split())


def test_folder_is_shown_with_text(
    folder: Path, tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Segments with their text, tokens, classes and epochs; bytes; and the records since."""
    assert run(folder, tiny_checkpoint) == 0
    shown = words_of(capsys.readouterr().out)
    for part in (
        'put the red cube in the blue bin', 'the red cube', 'goal', 'scratch', 'NUMERIC',
        'epoch 1', 'next step 2', 'policy full', 'keys and values', 'left_arm',
        'journal of 2 records', '"step": 2', '"tokens": "the blue bin the blue bin',
    ):
        assert part in shown, part


def test_other_tokenizer_shows_numbers_and_why(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Token ids are never read with words of another model."""
    assert run(folder) == 0
    shown = words_of(capsys.readouterr().out)
    assert 'no text: made with tokenizer' in shown
    assert 'in all' in shown
    assert 'red cube' not in shown
    assert 'blue bin' not in shown


def test_damage_is_shown_and_is_an_exit_status(
    folder: Path, tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged tensor and a damaged record are named; the rest is shown all the same."""
    file = snapshot_of(folder)
    bad = bytearray(file.read_bytes())
    bad[-60] ^= 1
    file.write_bytes(bad)
    (journal,) = folder.glob('journal-*')
    bad = bytearray(journal.read_bytes())
    bad[-10] ^= 1
    journal.write_bytes(bad)
    assert run(folder, tiny_checkpoint) == 1
    shown = words_of(capsys.readouterr().out)
    assert 'is damaged: its checksum does not fit' in shown
    assert 'record 2 is damaged' in shown
    assert 'put the red cube in the blue bin' in shown


def test_torn_end_and_tokens_only_are_explained(
    folder: Path, tmp_path: Path, tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a crash left, and what a full tier left out."""
    journal = Journal.create(tmp_path / 'other', {'a': 1})
    journal.append({'b': 2})
    journal.close()
    journal.path.write_bytes(journal.path.read_bytes()[:-3])
    assert run(journal.path, tiny_checkpoint) == 0
    assert 'of a torn record' in words_of(capsys.readouterr().out)
    small = tokens_only(load_snapshot(snapshot_of(folder)), 'since tier DISK is full')
    save_snapshot(tmp_path / 'small.safetensors', small)
    assert run(tmp_path / 'small.safetensors', tiny_checkpoint) == 0
    assert 'tokens only, since tier DISK is full' in words_of(capsys.readouterr().out)


def test_nothing_of_ours_is_a_bad_request(tmp_path: Path) -> None:
    """A path without states says what to give."""
    with pytest.raises(BadRequest, match='there is nothing at'):
        run(tmp_path / 'none')
    (tmp_path / 'readme.txt').write_text('hello')
    with pytest.raises(BadRequest, match='holds no state: give a snapshot'):
        run(tmp_path)


def test_weights_are_no_snapshot(
    tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another file of safetensors is told apart, not guessed at."""
    assert run(tiny_checkpoint / 'model.safetensors', tiny_checkpoint) == 1
    assert 'cannot be read' in words_of(capsys.readouterr().out)


def test_command_shows_a_file(folder: Path, tiny_checkpoint: Path) -> None:
    """The command line reaches it, with help and an example."""
    shown = CliRunner().invoke(
        cli.app, ['state', 'show', str(folder), '--checkpoint', str(tiny_checkpoint)]
    )
    assert shown.exit_code == 0
    assert 'put the red cube' in words_of(shown.output)


def test_long_lists_of_numbers_are_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a plan hands on to the decoder does not fill the screen."""
    Journal.create(tmp_path / 'journal', {'latent': [0.123456789] * 32}).close()

    assert run(tmp_path) == 0

    shown = capsys.readouterr().out
    assert '0.1235 0.1235' in shown
    assert '32 in all' in shown
    assert '0.123456789' not in shown

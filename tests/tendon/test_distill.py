# SPDX-License-Identifier: Apache-2.0
"""Promises of the one command that makes everything."""

import json
from types import SimpleNamespace

import pytest
from tendon import distill
from tendon.errors import BadRequest


@pytest.fixture
def parts(monkeypatch, tmp_path):
    """Put recorders in the place of what takes hours."""
    calls = []
    made = SimpleNamespace(checkpoint=tmp_path / 'final', taught='plain', figures={})

    def record(name, result=None):
        def part(*arguments, **options):
            calls.append((name, arguments, options))
            return result
        return part

    for name in (
        'generate', 'write_demonstrations', 'write_sequences', 'make_decoder', 'make_planner'
    ):
        monkeypatch.setattr(distill, name, record(name))
    monkeypatch.setattr(distill, 'distill', record('distill', made))
    return calls


def test_everything_is_made_in_order(parts, tmp_path, capsys):
    """Scenes, backbone, motions, decoder, small planner; the last line says where they are."""
    assert distill.run(tmp_path, 'smoke') == 0

    assert [name for name, _, _ in parts] == [
        'generate', 'generate', 'generate', 'distill', 'write_demonstrations', 'write_sequences',
        'make_decoder', 'make_planner',
    ]
    last = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert last['checkpoint'] == str(tmp_path / 'final')
    assert last['decoder'] == str(tmp_path / 'decoder' / 'decoder.onnx')
    assert last['planner'] == str(tmp_path / 'planner' / 'planner.onnx')


@pytest.mark.parametrize('seed', [0, 7])
def test_no_scene_is_drawn_twice(parts, tmp_path, seed):
    """Training, validation and test have seeds of their own; only test has unseen names."""
    distill.run(tmp_path, 'smoke', seed=seed)

    drawn = [arguments for name, arguments, _ in parts if name == 'generate']
    assert len({arguments[2] for arguments in drawn}) == 3
    assert {arguments[0].name: arguments[3] for arguments in drawn} == {
        'train': 'train', 'val': 'train', 'test': 'test',
    }


def test_a_finished_decoder_is_kept(parts, tmp_path):
    """The same command repeats nothing that is done."""
    (tmp_path / 'decoder').mkdir()
    (tmp_path / 'decoder' / 'MODEL_CARD.md').write_text('done')

    distill.run(tmp_path, 'smoke')

    assert 'make_decoder' not in [name for name, _, _ in parts]


def test_an_unknown_profile_is_refused(parts, tmp_path):
    """With the ones that there are, before anything is written."""
    with pytest.raises(BadRequest, match='full, smoke'):
        distill.run(tmp_path, 'huge')

    assert not parts


def test_missing_gazebo_is_said_first(parts, tmp_path, monkeypatch):
    """Before anything is drawn, in words that say what to do."""
    monkeypatch.setattr(distill, 'is_installed', lambda: False)
    with pytest.raises(BadRequest, match='gazebo-install'):
        distill.run(tmp_path, 'full')
    assert not parts


def test_full_draws_a_share_in_gazebo(parts, tmp_path, monkeypatch):
    """Some of the training, and a test set of the very scenes that the other renderer shows."""
    monkeypatch.setattr(distill, 'is_installed', lambda: True)
    distill.make_scenes(tmp_path, distill.AMOUNTS['full'], 0)
    drawn = {call[1][0].name: call[1] for call in parts}
    assert drawn['gazebo'][6] == drawn['test_gazebo'][6] == 'gazebo'
    assert drawn['test_gazebo'][2] == drawn['test'][2]
    assert drawn['gazebo'][2] != drawn['train'][2]

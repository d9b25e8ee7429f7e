# SPDX-License-Identifier: Apache-2.0
"""Promises of the training of the small planner, on a handful of scenes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from onboard_decoder.fallback.onboard_model import Curve, OnboardModel, TASKS
from onboard_decoder.fallback.sentence_words import split_words
from onboard_decoder.fallback.simple_planner import SimplePlanner
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.training import course, planner_ears, planner_eyes, planner_train
from onboard_decoder.training.course import TrainSettings
from onboard_decoder.training.planner_card import planner_card
from onboard_decoder.training.planner_data import Pictures, read_pictures, ShardError
from onboard_decoder.training.planner_export import export, KINDS, SmallPlanner
from onboard_decoder.training.planner_losses import ears_loss, eyes_loss
from onboard_decoder.training.planner_pictures import (
    draw_pictures,
    picture_batch,
    PictureBatch,
)
from onboard_decoder.training.planner_pipeline import make_planner
from onboard_decoder.training.planner_scores import ask_all, curves_of, scores
from onboard_decoder.training.planner_sentences import (
    HOME,
    SentenceSource,
    STAY,
    vocabulary_of,
)
from onboard_decoder.training.planner_train import train_ears, train_eyes
import pytest
from sim.dataset import generate
from sim.entity import COLOURS as SIM_COLOURS
from sim.entity import KINDS as SIM_KINDS
import torch

MANIFEST = load_manifest('tendon_arm')
SHORT = TrainSettings(seed=0, steps=4, batch=4)


@pytest.fixture(scope='module')
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('scenes')
    for split, seed in (('train', 1), ('val', 2), ('test', 3)):
        generate(folder / split, 12, seed, 'test' if split == 'test' else 'train', workers=1)
    return folder


@pytest.fixture(scope='module')
def pictures(data: Path) -> Pictures:
    return read_pictures(data / 'train')


@pytest.fixture
def generator() -> Iterator[torch.Generator]:
    yield torch.Generator().manual_seed(3)


def test_the_numbers_of_names_are_the_simulators() -> None:
    """Kinds and colours stand in shards as numbers, so both sides list them in one order."""
    assert planner_eyes.KINDS == SIM_KINDS and planner_eyes.COLOURS == SIM_COLOURS
    assert tuple(kind.name for kind in KINDS) == SIM_KINDS


def test_batches_keep_labels_where_things_are(
    pictures: Pictures, generator: torch.Generator
) -> None:
    """A shifted picture shows at its moved labels what the plain one shows at the plain ones."""
    plain = picture_batch(pictures, list(range(len(pictures))))
    drawn = draw_pictures(pictures, 64, generator)
    same = drawn.true_colours
    assert 0 < int(same.sum()) < 64
    errors = []
    for row in torch.where(same)[0].tolist():
        origin = int((plain.kind == drawn.kind[row]).all(1).int().argmax())
        for entity in range(2):
            x, y = (drawn.point[row, entity] * 128).long().clamp(0, 127).tolist()
            u, v = (plain.point[origin, entity] * 128).long().clamp(0, 127).tolist()
            errors.append(float(
                (drawn.pixels[row, :, y, x] - plain.pixels[origin, :, v, u]).abs().mean()))
    assert np.median(errors) < 0.15


def test_right_readings_have_the_least_loss(pictures: Pictures) -> None:
    """The loss falls when one reading after the other is set right."""
    truth = picture_batch(pictures, [0, 1, 2])
    cells = planner_eyes.Eyes().eval()(truth.pixels)
    before = float(eyes_loss(cells, truth).detach())
    right = cells.presence.detach().clone().fill_(-8.0)
    for row in range(3):
        for entity in torch.where(truth.kind[row] >= 0)[0].tolist():
            x, y = (truth.point[row, entity] * planner_eyes.SIDE).long().tolist()
            slot = int(truth.kind[row, entity] == planner_eyes.KINDS.index('bin'))
            right[row, slot, y, x] = 8.0
    after = eyes_loss(cells._replace(presence=right), truth).detach()
    assert float(after) < before - 1.0


def test_sentences_say_what_their_labels_say(pictures: Pictures) -> None:
    """A sentence that is not spoilt carries its own task and names; the others are 'other'."""
    words = vocabulary_of(pictures.sentences)
    batch = SentenceSource(pictures.sentences, words).draw(400, np.random.default_rng(1))
    others = int((batch.task == TASKS.index('other')).sum())
    assert 60 < others < 200
    for row in range(400):
        said = [words[number - 1] for number in batch.words[row].tolist() if number]
        if TASKS[batch.task[row]] in ('pick', 'put', 'stack', 'push'):
            assert planner_eyes.COLOURS[batch.a_colour[row]] in said
        if TASKS[batch.task[row]] in ('home', 'stay'):
            assert not set(said) & set(planner_eyes.COLOURS)
            assert int(batch.a_colour[row]) == -1


def test_the_vocabulary_has_no_typing_errors(pictures: Pictures) -> None:
    """Rare spellings are left out; the planner's own requests are all in."""
    words = vocabulary_of(pictures.sentences)
    assert 'hte' not in words and 'cube' in words and list(words) == sorted(set(words))
    assert all(word in words for text in (*HOME, *STAY) for word in split_words(text))


def test_training_learns(pictures: Pictures, tmp_path: Path) -> None:
    """A few steps on few scenes bring both losses down, and nothing is not a number."""
    words = vocabulary_of(pictures.sentences)
    source = SentenceSource(pictures.sentences, words)
    batch = source.draw(64, np.random.default_rng(9))
    torch.manual_seed(0)
    untrained = planner_ears.Ears(len(words) + 1)
    before = float(ears_loss(untrained(batch.words), batch).detach())
    settings = TrainSettings(steps=60, batch=32, rate=3e-3)
    ears, _ = train_ears(tmp_path, source, len(words), settings)
    after = float(ears_loss(ears(batch.words), batch).detach())
    assert np.isfinite(after) and after < 0.8 * before


def test_the_same_seed_gives_the_same_weights(
    pictures: Pictures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs agree bit by bit, and so does one that was interrupted."""
    one, _ = train_eyes(tmp_path / 'one', pictures, SHORT)
    two, _ = train_eyes(tmp_path / 'two', pictures, SHORT)
    other, _ = train_eyes(tmp_path / 'three', pictures, replace(SHORT, seed=1))
    monkeypatch.setattr(course, 'SAVE_EVERY', 2)
    batches = iter(range(3))

    def interrupted(*given: Any) -> PictureBatch:
        if next(batches, None) is None:
            raise KeyboardInterrupt
        return draw_pictures(*given)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(planner_train, 'draw_pictures', interrupted)
        train_eyes(tmp_path / 'parts', pictures, SHORT)
    resumed, seconds = train_eyes(tmp_path / 'parts', pictures, SHORT)
    weights = [m.near[0][0].weight.detach() for m in (one, two, resumed, other)]
    assert torch.equal(weights[0], weights[1]) and torch.equal(weights[0], weights[2])
    assert not torch.equal(weights[0], weights[3])
    assert seconds > 0


def test_one_command_makes_file_and_card(data: Path, tmp_path: Path) -> None:
    """The file loads on the robot, computes what the network computes, and the card is filled."""
    figures = make_planner(data, tmp_path, MANIFEST, SHORT, SHORT)
    model = OnboardModel(MANIFEST, tmp_path / 'planner.onnx')
    card = (tmp_path / 'PLANNER_CARD.md').read_text()
    assert model.about.digest in card and '{' not in card
    said = ' '.join(card.split())
    assert '(seed 1)' in said and '(seed 2)' in said
    assert set(model.about.curves) == {'steps', 'done', 'refused'}
    assert figures['stack or push left to the backbone'] >= 0.0
    assert all(f'| {name} |' in card for name in figures)


def test_scores_count_only_what_is_sure_enough(data: Path, tmp_path: Path) -> None:
    """With a limit of one nothing is answered, and nothing is called right."""
    words = vocabulary_of(read_pictures(data / 'train').sentences)
    torch.manual_seed(0)
    small = SmallPlanner(planner_eyes.Eyes().eval(), planner_ears.Ears(len(words) + 1).eval())
    difference = export(small, MANIFEST, words, tmp_path / 'p.onnx')
    assert difference <= 1e-3
    planner = SimplePlanner(MANIFEST, OnboardModel(MANIFEST, tmp_path / 'p.onnx'))
    few = read_pictures(data / 'test', 4)
    trials = ask_all(planner, few, MANIFEST)
    figures = scores(trials, 1.1)
    assert len(trials) == len(few.sentences) > 0
    assert all(value == 0.0 for name, value in figures.items() if name.endswith('answered'))
    assert all(isinstance(curve, Curve) for curve in curves_of(trials).values())
    assert planner_card(MANIFEST, _about(), figures).startswith('# Onboard planner of tendon_arm')


def _about() -> dict[str, object]:
    names = (
        'image_px most_words eyes_parameters ears_layers words ears_parameters opset bytes '
        'digest train_scenes train_seed eyes_steps eyes_batch ears_steps ears_batch seed '
        'val_scenes val_seed test_scenes test_seed least')
    numbers = dict.fromkeys(('difference', 'eyes_cpu_s', 'ears_cpu_s'), 0.0)
    return {**dict.fromkeys(names.split(), 0), **numbers}


def test_shards_of_an_old_format_are_refused(data: Path, tmp_path: Path) -> None:
    """The message names what lacks, and that the scenes are to be drawn anew."""
    with pytest.raises(ShardError, match='no shard'):
        read_pictures(tmp_path)
    source = next((data / 'train').glob('*.npz'))
    with np.load(source) as shard:
        np.savez(tmp_path / 'shard_0000.npz', image=shard['image'], kind=shard['kind'])
    (tmp_path / 'shard_0000.jsonl').write_text(source.with_suffix('.jsonl').read_text())
    with pytest.raises(ShardError, match='lacks colour'):
        read_pictures(tmp_path)

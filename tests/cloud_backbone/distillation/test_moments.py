# SPDX-License-Identifier: Apache-2.0
"""Moments, read and judged."""

from dataclasses import replace
from pathlib import Path

from cloud_backbone.act import Act
from cloud_backbone.agent_words import Lesson
from cloud_backbone.distillation.evaluate_acts import (
    evaluate_acts,
    judge_act,
    summarise_acts,
)
from cloud_backbone.distillation.moments import Moment, read_moments
from cloud_backbone.distillation.scene_shards import read_split, Scenes, ShardError
from cloud_backbone.model.checkpoint import config_for
from cloud_backbone.model.growth import add_words
from cloud_backbone.model.start_values import new_model
from cloud_backbone.task_memory import Manner, Tool
import pytest
import torch

from tests.cloud_backbone.distillation.drawn_scenes import write_split
from tests.cloud_backbone.model.tiny_model import tiny_tokenizer

Drawn = tuple[Scenes, list[Moment]]


@pytest.fixture(scope='module')
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    """Return scenes with their moments."""
    directory = tmp_path_factory.mktemp('data')
    write_split(directory, 'train', 3, seed=5)
    scenes = read_split(directory, 'train')
    return scenes, read_moments(directory, 'train', scenes)


def test_records_become_words_and_acts(drawn: Drawn) -> None:
    """History, lessons and hand are in the memory; the answer has the scene's points."""
    scenes, moments = drawn
    missed, slow, look, over = moments[:4]
    assert missed.memory.endswith('<missed><hand_empty>')
    assert isinstance(missed.answer, Act)
    assert missed.answer.a_point == tuple(scenes.point[0, 1].tolist())
    assert slow.memory.startswith('<lesson> the ')
    assert isinstance(slow.answer, Act)
    assert slow.answer.manner is Manner.SLOWLY
    assert isinstance(look.answer, Act)
    assert (look.answer.tool, look.located) == (Tool.LOOK, ())
    assert isinstance(over.answer, Lesson)
    assert over.memory.endswith('<trial_failed><hand_empty>')


def test_missing_moments_are_refused(drawn: Drawn, tmp_path: Path) -> None:
    """Shards without moments are told apart from scenes without any."""
    with pytest.raises(ShardError, match='needed are 3'):
        read_moments(tmp_path, 'train', drawn[0])


def test_a_right_act_has_tool_manner_and_things(drawn: Drawn) -> None:
    """Points may differ and are measured; anything else makes an act wrong."""
    moment = drawn[1][0]
    wanted = moment.answer
    assert isinstance(wanted, Act) and wanted.a_point is not None
    x, y = wanted.a_point
    near = judge_act(moment, replace(wanted, a_point=(x + 2 / 128, y)))
    assert near.right
    assert near.error_px == pytest.approx(2.0)
    for wrong in (
        replace(wanted, tool=Tool.ASK), replace(wanted, manner=Manner.LOW),
        replace(wanted, a_point=None),
    ):
        assert not judge_act(moment, wrong).right


def test_any_model_gives_a_reply_to_every_moment(drawn: Drawn) -> None:
    """Even an untrained model writes acts that parse; shares are between 0 and 1."""
    scenes, moments = drawn
    model = new_model(config_for(tiny_tokenizer(), 'student'), 0)
    scores = summarise_acts(evaluate_acts(model, tiny_tokenizer(), scenes, moments[:6]))
    assert scores['moments'] == 6
    assert 0.0 <= scores['acts_right'] <= 1.0


def test_new_words_leave_the_old_ones_as_they_were() -> None:
    """A model that learns words answers as before until it is trained."""
    old = new_model(config_for(tiny_tokenizer(), 'student'), 0).eval()
    size = old.config.text_config.vocab_size
    grown = add_words(old, size + 5, 1).eval()
    tokens = torch.arange(7, 20)[None]
    with torch.no_grad():
        before, after = (model(input_ids=tokens).logits for model in (old, grown))
    assert after.shape[-1] == size + 5
    torch.testing.assert_close(after[..., :size], before)

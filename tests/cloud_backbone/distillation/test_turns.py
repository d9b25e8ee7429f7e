# SPDX-License-Identifier: Apache-2.0

from cloud_backbone.distillation.moments import read_moments
from cloud_backbone.distillation.renaming import rename
from cloud_backbone.distillation.scene_shards import read_split
from cloud_backbone.distillation.turns import tokenise, TurnBatch
from cloud_backbone.model.checkpoint import config_for
from cloud_backbone.model.prompt import answer_ids
from cloud_backbone.model.tokenizer import BOS, EOS
from cloud_backbone.plan_grammar import bin_of, compose
import pytest
import torch

from tests.cloud_backbone.distillation.drawn_scenes import write_split
from tests.cloud_backbone.model.tiny_model import tiny_tokenizer

CONFIG = config_for(tiny_tokenizer(), 'student')


@pytest.fixture(scope='module')
def batch(tmp_path_factory: pytest.TempPathFactory) -> TurnBatch:
    directory = tmp_path_factory.mktemp('data')
    write_split(directory, 'train', 6, seed=3)
    scenes = read_split(directory, 'train')
    moments = read_moments(directory, 'train', scenes)
    turns = tokenise(scenes, tiny_tokenizer(), CONFIG, moments)
    return turns.draw(4, 6, torch.Generator().manual_seed(0))


def test_marked_targets_spell_the_answer(batch: TurnBatch) -> None:
    """The targets of the answer tokens are the right answer, in the row's names, and the end."""
    for row, turn in enumerate(batch.turns):
        if turn.system:
            continue
        wanted = answer_ids(tiny_tokenizer(), compose(turn.instruction.draft))
        wanted = rename(wanted, turn.names, CONFIG)
        assert wanted[-1] == EOS
        assert batch.target[row][batch.answer[row]].tolist() == wanted


def test_an_agents_row_holds_tools_goal_and_memory_in_order(batch: TurnBatch) -> None:
    """Tools come first, then the goal, then what was learned and done, then the image."""
    rows = [row for row, turn in enumerate(batch.turns) if turn.system]
    assert rows and len(rows) < len(batch.turns)
    for row in rows:
        turn, start = batch.turns[row], int(batch.image_start[row])
        words = [BOS, *turn.system, *turn.before[1:], *turn.memory]
        assert batch.input_ids[row, : start - 1].tolist() == words
        assert batch.target[row][batch.answer[row]].tolist() == turn.after


def test_locations_follow_their_tokens(batch: TurnBatch) -> None:
    """The k-th location value belongs to the k-th location token of the batch."""
    tokens = batch.target[batch.is_location] - CONFIG.location_token_start
    assert tokens.tolist() == [bin_of(value) for value in batch.location.tolist()]


def test_images_begin_where_it_says(batch: TurnBatch) -> None:
    """Each row has its image tokens from its image start on."""
    for row, start in enumerate(batch.image_start.tolist()):
        inside = batch.input_ids[row, start : start + CONFIG.image_seq_length]
        assert (inside == CONFIG.image_token_id).all()
        assert batch.input_ids[row, start - 1] == CONFIG.image_start_token_id


def test_rows_look_at_their_own_scene(batch: TurnBatch) -> None:
    """A row's image is that of the scene that its instruction is about."""
    scenes = batch.scene[batch.image_of].tolist()
    assert scenes == [turn.instruction.scene for turn in batch.turns]


def test_noise_leaves_names_alone(batch: TurnBatch) -> None:
    """Whatever is slipped in, colours and kinds stay in order, and no colour is added."""
    names = {*CONFIG.colour_token_ids, *CONFIG.kind_token_ids}
    for turn in batch.turns:
        text = tiny_tokenizer().encode(f' {turn.instruction.text}', add_special_tokens=False)
        wanted = [token for token in rename(text, turn.names, CONFIG) if token in names]
        slipped_in = [token for token in turn.before if token in names]
        rest = iter(slipped_in)
        assert all(token in rest for token in wanted)
        colours = set(CONFIG.colour_token_ids)
        assert [t for t in slipped_in if t in colours] == [t for t in wanted if t in colours]

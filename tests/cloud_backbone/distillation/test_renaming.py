# SPDX-License-Identifier: Apache-2.0
from cloud_backbone.distillation.renaming import draw_names, rename, TRUE_NAMES
from cloud_backbone.distillation.scene_shards import Instruction
from cloud_backbone.model.checkpoint import config_for
from cloud_backbone.model.prompt import instruction_ids
from cloud_backbone.plan_grammar import PlanDraft
from cloud_backbone.plan_vocabulary import Thing
import torch

from tests.cloud_backbone.model.tiny_model import tiny_tokenizer

CONFIG = config_for(tiny_tokenizer(), 'student')
DRAFT = PlanDraft('steps', Thing('red', 'cube'), Thing('blue', 'bin'), (0, 0), (1, 1), 'put')


def names_of(text: str, draws: int = 40) -> set[tuple[int, ...]]:
    generator = torch.Generator().manual_seed(0)
    instruction = Instruction(0, text, DRAFT, 0, 1, 0, 'put')
    before = instruction_ids(tiny_tokenizer(), text)
    return {draw_names(before, instruction, CONFIG, generator) for _ in range(draws)}


def test_names_change_places() -> None:
    """Every drawing is a permutation, and the true names stay among them."""
    drawn = names_of('put the red cube in the blue bin')
    assert TRUE_NAMES in drawn and len(drawn) > 10
    assert all(sorted(names) == list(TRUE_NAMES) for names in drawn)


def test_misspelled_colours_keep_their_names() -> None:
    """A row that spells a colour wrongly is not renamed, or its answer would be another's."""
    assert names_of('put the rde cube in the blue bin') == {TRUE_NAMES}


def test_only_colours_are_renamed() -> None:
    """Red and blue change places; all other tokens stay."""
    names = (2, 1, 0, *TRUE_NAMES[3:])
    ids = instruction_ids(tiny_tokenizer(), 'the red cube, the blue bin')
    swapped = instruction_ids(tiny_tokenizer(), 'the blue cube, the red bin')
    assert rename(ids, names, CONFIG) == swapped

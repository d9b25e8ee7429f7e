# SPDX-License-Identifier: Apache-2.0
"""Instructions and moments as tokens: every turn of a split, ready to be drawn into batches.

Knows the tokenizer and the order of a sequence; knows no loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cloud_backbone.act import Act
from cloud_backbone.agent_words import SYSTEM
from cloud_backbone.distillation.instruction_noise import InstructionNoise
from cloud_backbone.distillation.moments import Moment
from cloud_backbone.distillation.renaming import draw_names, rename, TRUE_NAMES
from cloud_backbone.distillation.scene_shards import Instruction, Scenes
from cloud_backbone.model.configuration import TendonVlmConfig
from cloud_backbone.model.prompt import answer_ids, image_ids, instruction_ids
from cloud_backbone.plan_grammar import compose, Point
from cloud_backbone.plan_vocabulary import Thing
from cloud_backbone.task_memory import Manner
import torch
from torch import Generator, Tensor
from transformers import PreTrainedTokenizerFast

OUTCOME_WEIGHTS = {'steps': 1.0, 'done': 3.0, 'refused': 3.0}
# Rare calls are drawn more often.
TOOL_WEIGHTS = {
    'grasp': 1.0, 'place': 2.5, 'stack': 6.0, 'push': 1.5, 'release': 1.0, 'ask': 4.0,
    'look': 1.5, 'stop': 1.5, 'done': 2.0, 'lesson': 0.7,
}


class Turn(NamedTuple):
    """One instruction in tokens.

    before: begin token and instruction. located: the things whose places the answer names, in
    its order. names: how each colour is called. system, memory: what an agent is told before and
    after the instruction; empty for a single question. weight: how often it is drawn.
    """

    before: list[int]
    after: list[int]
    located: tuple[tuple[Thing, Point], ...]
    instruction: Instruction
    names: tuple[int, ...] = TRUE_NAMES
    system: tuple[int, ...] = ()
    memory: tuple[int, ...] = ()
    weight: float = 1.0

    @property
    def prompt(self) -> list[int]:
        """All tokens before the image."""
        return [self.before[0], *self.system, *self.before[1:], *self.memory]


class TurnBatch(NamedTuple):
    """Rows of tokens, each with its own instruction; several rows share an image.

    input_ids: (rows, tokens), padded on the right. scene: (images,), index into the scenes.
    image_of: (rows,), index into the batch's images. image_start: (rows,), first image token.
    answer: (rows, tokens), bool, True where the next token is part of the answer.
    target: (rows, tokens), that next token. is_location: (rows, tokens), bool, it is a location.
    location: (locations,), 0 to 1, in the order of is_location. names: (rows, colours), how
    each colour is called in the row. turns: the rows' turns.
    """

    input_ids: Tensor
    scene: Tensor
    image_of: Tensor
    image_start: Tensor
    answer: Tensor
    target: Tensor
    is_location: Tensor
    location: Tensor
    names: Tensor
    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Turns:
    """All turns of a split, and which of them belong to which scene."""

    turns: tuple[Turn, ...]
    of_scene: dict[int, list[int]]
    config: TendonVlmConfig
    noise: InstructionNoise

    def draw(self, images: int, rows: int, generator: Generator) -> TurnBatch:
        """Draw `images` scenes and up to `rows` turns about each."""
        scenes = list(self.of_scene)
        pick = torch.randint(len(scenes), (images,), generator=generator).tolist()
        scene = [scenes[index] for index in pick]
        chosen: list[Turn] = []
        image_of: list[int] = []
        for image, number in enumerate(scene):
            here = self.of_scene[number]
            weight = torch.tensor([self.turns[index].weight for index in here])
            count = min(rows, len(here))
            order = torch.multinomial(weight, count, generator=generator).tolist()
            chosen += [self._disturbed(here[index], generator) for index in order]
            image_of += [image] * len(order)
        return collate(chosen, scene, image_of, self.config)

    def _disturbed(self, number: int, generator: Generator) -> Turn:
        turn = self.turns[number]
        before = self.noise.disturb(turn.before, turn.instruction, generator)
        names = draw_names(before, turn.instruction, self.config, generator)
        return turn._replace(
            before=rename(before, names, self.config),
            after=rename(turn.after, names, self.config),
            memory=tuple(rename(turn.memory, names, self.config)),
            names=names,
        )


def tokenise(
    scenes: Scenes,
    tokenizer: PreTrainedTokenizerFast,
    config: TendonVlmConfig,
    moments: Sequence[Moment] = (),
) -> Turns:
    """Tokenise all instructions and moments of a split and their answers."""
    turns = []
    of_scene: dict[int, list[int]] = {}
    answers: dict[str, list[int]] = {}
    for number, instruction in enumerate(scenes.instructions):
        text = compose(instruction.draft)
        if text not in answers:
            answers[text] = answer_ids(tokenizer, text)
        turns.append(turn_of(instruction, tokenizer, answers[text]))
        of_scene.setdefault(instruction.scene, []).append(number)
    for number, moment in enumerate(moments, len(turns)):
        turns.append(turn_of_moment(moment, tokenizer, answer_ids(tokenizer, moment.text)))
        of_scene.setdefault(moment.instruction.scene, []).append(number)
    return Turns(tuple(turns), of_scene, config, InstructionNoise(tokenizer))


def turn_of(
    instruction: Instruction, tokenizer: PreTrainedTokenizerFast, after: list[int]
) -> Turn:
    """Return the turn of one instruction whose answer has the tokens `after`."""
    draft = instruction.draft
    pairs = ((draft.a, draft.a_point), (draft.b, draft.b_point))
    located = tuple((a, at) for a, at in pairs if a is not None and at is not None)
    before = instruction_ids(tokenizer, instruction.text)
    return Turn(
        before, after, located, instruction, weight=OUTCOME_WEIGHTS[draft.outcome]
    )


def turn_of_moment(moment: Moment, tokenizer: PreTrainedTokenizerFast, after: list[int]) -> Turn:
    """Return the turn of one moment whose answer has the tokens `after`."""

    def ids(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.encode(text, add_special_tokens=False))

    answer = moment.answer
    tool = answer.tool.value if isinstance(answer, Act) else 'lesson'
    manner = 2.0 if isinstance(answer, Act) and answer.manner is not Manner.NORMAL else 1.0
    return Turn(
        instruction_ids(tokenizer, moment.instruction.text), after, moment.located,
        moment.instruction, system=ids(SYSTEM), memory=ids(moment.memory),
        weight=TOOL_WEIGHTS[tool] * manner,
    )


def collate(
    turns: Sequence[Turn], scene: Sequence[int], image_of: Sequence[int], config: TendonVlmConfig
) -> TurnBatch:
    """Put turns into rows of equal length."""
    place = image_ids(config)
    rows = [turn.prompt + place + turn.after for turn in turns]
    length = max(len(row) for row in rows)
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    answer = torch.zeros(len(rows), length, dtype=torch.bool)
    for index, (row, turn) in enumerate(zip(rows, turns, strict=True)):
        ids[index, : len(row)] = torch.tensor(row)
        answer[index, len(row) - len(turn.after) - 1 : len(row) - 1] = True
    target = torch.cat([ids[:, 1:], torch.zeros(len(rows), 1, dtype=torch.long)], dim=1)
    first = config.location_token_start
    is_location = answer & (target >= first) & (target < first + config.location_tokens)
    location = [value for turn in turns for _, point in turn.located for value in point]
    return TurnBatch(
        input_ids=ids,
        scene=torch.tensor(scene),
        image_of=torch.tensor(image_of),
        image_start=torch.tensor([len(turn.prompt) + 1 for turn in turns]),
        answer=answer,
        target=target,
        is_location=is_location,
        location=torch.tensor(location),
        names=torch.tensor([turn.names for turn in turns]),
        turns=tuple(turns),
    )

# SPDX-License-Identifier: Apache-2.0
"""Moments in the middle of tasks, read from shards: what an agent knows, and its right answer.

Turns records of the simulator into the words of the agent. Knows no tokens and no loss.
"""

from __future__ import annotations

from dataclasses import dataclass
import json
from pathlib import Path
from typing import Any

from cloud_backbone.act import Act, compose_act
from cloud_backbone.agent_words import entry_text, Fact, hand_text, Lesson, lesson_text
from cloud_backbone.distillation.scene_shards import Instruction, Scenes, ShardError
from cloud_backbone.plan_grammar import PlanDraft, Point
from cloud_backbone.plan_vocabulary import Thing, Vocabulary
from cloud_backbone.task_memory import HistoryEntry, Manner, StepResult, Tool, ToolCall

_VOCABULARY = Vocabulary()


@dataclass(frozen=True)
class Moment:
    """One moment and the right answer to it.

    Attributes:
        instruction: what was said about which scene; its draft says what is where.
        memory: lessons, history and the hand, in words.
        answer: an act, or a lesson where the trial is over.
        hand_holds: whether there is something in the gripper.
        is_over: whether a lesson is wanted.
    """

    instruction: Instruction
    memory: str
    answer: Act | Lesson
    hand_holds: bool
    is_over: bool

    @property
    def text(self) -> str:
        """The answer as the model is to write it."""
        answer = self.answer
        return lesson_text(answer) if isinstance(answer, Lesson) else compose_act(answer)

    @property
    def located(self) -> tuple[tuple[Thing, Point], ...]:
        """Things whose place the answer names, in its order."""
        answer = self.answer
        if isinstance(answer, Lesson):
            return ()
        pairs = ((answer.a, answer.a_point), (answer.b, answer.b_point))
        return tuple((thing, at) for thing, at in pairs if thing is not None and at is not None)


def read_moments(data_dir: Path, split: str, scenes: Scenes) -> list[Moment]:
    """Read the moments of the scenes of a split.

    Raises:
        ShardError: shards are missing, or fewer than the scenes.
    """
    paths = sorted((data_dir / split).rglob('shard_*.agent.jsonl'))
    lines = [line for path in paths for line in path.read_text(encoding='utf-8').splitlines()]
    if len(lines) < len(scenes):
        raise ShardError(
            f'{data_dir / split} holds moments of {len(lines)} scenes, needed are {len(scenes)}'
        )
    return [
        _moment(scene, record, scenes)
        for scene, line in enumerate(lines[: len(scenes)])
        for record in json.loads(line)
    ]


def _moment(scene: int, record: dict[str, Any], scenes: Scenes) -> Moment:
    a, b = Thing(*record['a']), Thing(*record['b']) if record['b'] else None
    a_point, b_point = (_point(scenes, scene, record[key]) for key in ('a_index', 'b_index'))
    outcome = 'refused' if a_point is None else 'done' if record['tool'] == 'done' else 'steps'
    draft = PlanDraft(outcome, a, b, a_point, b_point, record['task'])
    instruction = Instruction(
        scene, record['text'], draft, record['a_index'], record['b_index'], record['template'],
        record['task'],
    )
    hand, over = bool(record['hand']), bool(record['is_over'])
    lessons = [lesson_text(Lesson(Fact(fact), Thing(*name))) for fact, name in record['lessons']]
    history = [_entry(call, result) for call, result in record['history']]
    memory = ''.join([*lessons, *history, hand_text(hand, over)])
    return Moment(instruction, memory, _answer(record, draft), hand, over)


def _answer(record: dict[str, Any], draft: PlanDraft) -> Act | Lesson:
    if record['is_over']:
        return Lesson(Fact(record['manner']), draft.a)
    holding = bool(record['holding'])
    return Act(
        Tool(record['tool']), draft.a, draft.b, None if holding else draft.a_point,
        draft.b_point, holding, _manner(record['manner']),
    )


def _entry(call: list[Any], result: str) -> str:
    tool, name, manner = call
    about = str(Thing(*name)) if name else ''
    said = ToolCall(Tool(tool), about, about, _manner(manner))
    return entry_text(HistoryEntry(0, said, StepResult(result)), _VOCABULARY)


def _manner(word: str) -> Manner:
    return Manner(word) if word else Manner.NORMAL


def _point(scenes: Scenes, scene: int, index: int) -> Point | None:
    if index < 0:
        return None
    x, y = scenes.point[scene, index].tolist()
    return x, y

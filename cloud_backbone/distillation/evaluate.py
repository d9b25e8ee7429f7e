# SPDX-License-Identifier: Apache-2.0
"""How good the plans are that a model writes on its own.

A plan is right if outcome, things and task are; its grounding error is that of the worse of its
locations. Knows no training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from cloud_backbone.distillation.answer import answer
from cloud_backbone.distillation.augment import to_pixels
from cloud_backbone.distillation.scene_shards import Instruction, Scenes
from cloud_backbone.distillation.turns import Turn, turn_of
from cloud_backbone.model.distilled_vlm import TendonVlmForConditionalGeneration
from cloud_backbone.plan_grammar import PlanDraft, Point, TASKS
import torch
from transformers import PreTrainedTokenizerFast

BATCH = 64
GRID_PX = 128
NEAR_PX = 4.0
Scores = dict[str, float]


@dataclass(frozen=True)
class Verdict:
    """One answer beside the right one; error_px is None unless both locate the same things."""

    instruction: Instruction
    given: PlanDraft
    right: bool
    error_px: float | None


def judge(instruction: Instruction, given: PlanDraft) -> Verdict:
    """Compare an answer with the right one."""
    wanted = instruction.draft
    same_things = (given.a, given.b) == (wanted.a, wanted.b)
    right = same_things and (given.outcome, given.task) == (wanted.outcome, wanted.task)
    pairs = [(wanted.a_point, given.a_point), (wanted.b_point, given.b_point)]
    errors = [distance_px(one, other) for one, other in pairs if one and other]
    return Verdict(instruction, given, right, max(errors) if right and errors else None)


def evaluate(
    model: TendonVlmForConditionalGeneration,
    tokenizer: PreTrainedTokenizerFast,
    scenes: Scenes,
    instructions: Sequence[Instruction],
    device: str = 'cpu',
    report: Callable[[int], None] = lambda done: None,
) -> list[Verdict]:
    """Let the model answer instructions about scenes, and judge every answer."""
    model.to(device).eval()  # type: ignore[arg-type]
    turns = [turn_of(instruction, tokenizer, []) for instruction in instructions]
    turns.sort(key=lambda turn: len(turn.before))
    verdicts: list[Verdict] = []
    for start in range(0, len(turns), BATCH):
        part: list[Turn] = turns[start : start + BATCH]
        index = torch.tensor([turn.instruction.scene for turn in part])
        pixels = to_pixels(scenes.image[index]).to(device)
        drafts = answer(model, tokenizer, part, pixels)
        verdicts += [
            judge(turn.instruction, draft) for turn, draft in zip(part, drafts, strict=True)
        ]
        report(len(verdicts))
    return verdicts


def choose(scenes: Scenes, count: int, seed: int) -> list[Instruction]:
    """Draw instructions for an evaluation, the same ones for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(scenes.instructions), generator=generator)[:count]
    return [scenes.instructions[index] for index in order.tolist()]


def summarise(verdicts: Sequence[Verdict]) -> Scores:
    """Return shares and errors; a share over nothing is left out."""
    scores: Scores = {'turns': float(len(verdicts)), **_share('plans_right', verdicts)}
    errors = [verdict.error_px for verdict in verdicts if verdict.error_px is not None]
    if errors:
        scores['grounding_median_px'] = median(errors)
        scores['grounding_within_4px'] = sum(e < NEAR_PX for e in errors) / len(errors)
    absent = [v for v in verdicts if v.instruction.draft.outcome == 'refused']
    present = [v for v in verdicts if v.instruction.draft.outcome != 'refused']
    scores |= _share('absent_refused', absent, lambda v: v.given.outcome == 'refused')
    scores |= _share('present_refused', present, lambda v: v.given.outcome == 'refused')
    done = [v for v in verdicts if v.instruction.draft.outcome == 'done']
    undone = [v for v in verdicts if v.instruction.draft.outcome == 'steps']
    scores |= _share('done_recognised', done, lambda v: v.given.outcome == 'done')
    scores |= _share('undone_called_done', undone, lambda v: v.given.outcome == 'done')
    for name, group in _groups(verdicts).items():
        scores |= _share(f'{name}_right', group)
    return scores


def _groups(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    groups = {task: [v for v in verdicts if v.instruction.task == task] for task in TASKS}
    unseen = [v for v in verdicts if v.instruction.unseen_wording]
    groups['known_wording'] = [v for v in verdicts if not v.instruction.unseen_wording]
    groups['unseen_wording'] = unseen
    groups['seen_pair'] = [v for v in verdicts if not v.instruction.unseen_pair]
    groups['unseen_pair'] = [v for v in verdicts if v.instruction.unseen_pair]
    return groups


def _share(
    name: str,
    verdicts: Sequence[Verdict],
    holds: Callable[[Verdict], bool] = lambda verdict: verdict.right,
) -> Scores:
    if not verdicts:
        return {}
    return {name: sum(holds(verdict) for verdict in verdicts) / len(verdicts)}


def distance_px(one: Point, other: Point) -> float:
    """Return the distance of two points of the image in its pixels."""
    return float(((one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2) ** 0.5) * GRID_PX

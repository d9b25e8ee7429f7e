# SPDX-License-Identifier: Apache-2.0
"""How good the acts and lessons are that a model writes on its own.

An act is right if tool, manner and things are; its grounding error is that of the worse of its
locations. Knows no training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from cloud_backbone.act import Act, Bounds
from cloud_backbone.act_writer import ActWriter
from cloud_backbone.agent_words import Lesson
from cloud_backbone.constrained_decoding import PlanLanguage
from cloud_backbone.distillation.answer import write
from cloud_backbone.distillation.augment import to_pixels
from cloud_backbone.distillation.evaluate import BATCH, distance_px, Scores
from cloud_backbone.distillation.moments import Moment
from cloud_backbone.distillation.scene_shards import Scenes
from cloud_backbone.distillation.turns import Turn, turn_of_moment
from cloud_backbone.model.distilled_vlm import TendonVlmForConditionalGeneration
from cloud_backbone.model.text_codec import TokenizerCodec
from cloud_backbone.plan_grammar import Point
from cloud_backbone.plan_vocabulary import Vocabulary
from cloud_backbone.task_memory import Tool
import torch
from transformers import PreTrainedTokenizerFast

Reply = Act | Lesson


@dataclass(frozen=True)
class ActVerdict:
    """One reply beside the right one; error_px is None where it locates nothing."""

    moment: Moment
    given: Reply
    right: bool
    error_px: float | None


def judge_act(moment: Moment, given: Reply) -> ActVerdict:
    """Compare a reply with the right one."""
    wanted = moment.answer
    if not isinstance(wanted, Act) or not isinstance(given, Act):
        return ActVerdict(moment, given, given == wanted, None)
    right = _without_points(given) == _without_points(wanted)
    pairs: list[tuple[Point | None, Point | None]] = [
        (wanted.a_point, given.a_point), (wanted.b_point, given.b_point)
    ]
    errors = [distance_px(one, other) for one, other in pairs if one and other]
    return ActVerdict(moment, given, right, max(errors) if right and errors else None)


def evaluate_acts(
    model: TendonVlmForConditionalGeneration,
    tokenizer: PreTrainedTokenizerFast,
    scenes: Scenes,
    moments: Sequence[Moment],
    device: str = 'cpu',
    report: Callable[[int], None] = lambda done: None,
) -> list[ActVerdict]:
    """Let the model reply to moments, and judge every reply."""
    model.to(device).eval()  # type: ignore[arg-type]
    language = PlanLanguage(Vocabulary(), TokenizerCodec(tokenizer))
    asked = [(moment, turn_of_moment(moment, tokenizer, [])) for moment in moments]
    asked.sort(key=lambda pair: len(pair[1].prompt))
    verdicts: list[ActVerdict] = []
    for start in range(0, len(asked), BATCH):
        part: list[tuple[Moment, Turn]] = asked[start : start + BATCH]
        writers = [ActWriter(language, _bounds(moment)) for moment, _ in part]
        index = torch.tensor([moment.instruction.scene for moment, _ in part])
        pixels = to_pixels(scenes.image[index]).to(device)
        write(model, [turn for _, turn in part], writers, pixels)
        for (moment, _), writer in zip(part, writers, strict=True):
            assert writer.draft is not None
            verdicts.append(judge_act(moment, writer.draft))
        report(len(verdicts))
    return verdicts


def choose_moments(moments: Sequence[Moment], count: int, seed: int) -> list[Moment]:
    """Draw moments for an evaluation, the same ones for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(moments), generator=generator)[:count]
    return [moments[index] for index in order.tolist()]


def summarise_acts(verdicts: Sequence[ActVerdict]) -> Scores:
    """Return shares of right replies, over all and by the right call, and grounding errors."""
    scores: Scores = {'moments': float(len(verdicts))}
    groups = {'acts': list(verdicts)}
    for verdict in verdicts:
        groups.setdefault(_kind(verdict.moment.answer), []).append(verdict)
    unseen = [v for v in verdicts if v.moment.instruction.unseen_wording]
    groups['unseen_wording'] = unseen
    groups['known_wording'] = [v for v in verdicts if not v.moment.instruction.unseen_wording]
    for name, group in sorted(groups.items()):
        if group:
            scores[f'{name}_right'] = sum(v.right for v in group) / len(group)
    undone = [v for v in verdicts if _kind(v.moment.answer) != 'done']
    wrong = sum(isinstance(v.given, Act) and v.given.tool is Tool.DONE for v in undone)
    scores['undone_called_done'] = wrong / max(len(undone), 1)
    errors = [verdict.error_px for verdict in verdicts if verdict.error_px is not None]
    if errors:
        scores['grounding_median_px'] = median(errors)
    return scores


def _bounds(moment: Moment) -> Bounds | None:
    return None if moment.is_over else Bounds(hand_holds=moment.hand_holds)


def _kind(reply: Reply) -> str:
    if isinstance(reply, Lesson):
        return f'lesson_{reply.fact.value}'
    return f'{reply.tool.value}_{reply.manner.value}'.removesuffix('_normal')


def _without_points(act: Act) -> tuple[object, ...]:
    located = act.a_point is not None, act.b_point is not None
    return act.tool, act.manner, act.a, act.b, act.holding, located

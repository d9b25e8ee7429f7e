# SPDX-License-Identifier: Apache-2.0
"""What a teacher adds to the student's loss: its odds of every next token, and its gaze.

Decisions weigh more, as in the loss on the truth. Hinton, Vinyals and Dean, "Distilling the
Knowledge in a Neural Network", arXiv:1503.02531: soft targets at a temperature, gradients
scaled by its square. Changed: only the tokens of answers count, and the attention of the
grounded head is matched too.
"""

from __future__ import annotations

from cloud_backbone.distillation.plan_loss import decision_weights
from cloud_backbone.distillation.train_planner import think, Thoughts
from cloud_backbone.distillation.turns import TurnBatch
from cloud_backbone.model.distilled_vlm import TendonVlmForConditionalGeneration
from cloud_backbone.model.vision_encoder import VisionFeatures
import torch
from torch import Tensor
from torch.nn import functional

TEMPERATURE = 1.5
ODDS_WEIGHT = 0.3
GAZE_WEIGHT = 0.2


class TeacherOpinion:
    """Extra loss that pulls a student towards one teacher; both have the same eyes."""

    def __init__(self, teacher: TendonVlmForConditionalGeneration, decisive: Tensor) -> None:
        self.teacher = teacher.eval()
        self.decisive = decisive

    def __call__(self, batch: TurnBatch, features: VisionFeatures, student: Thoughts) -> Tensor:
        """Return the weighted distance of the student's odds and gaze from the teacher's."""
        with torch.no_grad(), torch.autocast(batch.input_ids.device.type, torch.bfloat16):
            teacher = think(self.teacher, batch, features)
        weight = decision_weights(batch, self.decisive)
        odds = odds_distance(student.logits, teacher.logits, weight)
        row, position = batch.answer.nonzero(as_tuple=True)
        gaze = gaze_distance(
            student.tap.attend(0, row, position), teacher.tap.attend(0, row, position)
        )
        return ODDS_WEIGHT * odds + GAZE_WEIGHT * gaze


def odds_distance(student: Tensor, teacher: Tensor, weight: Tensor) -> Tensor:
    """Return the mean divergence of logits (tokens, vocabulary), weighted by (tokens,)."""
    ours = functional.log_softmax(student.float() / TEMPERATURE, dim=-1)
    theirs = functional.log_softmax(teacher.float() / TEMPERATURE, dim=-1)
    each = functional.kl_div(ours, theirs, log_target=True, reduction='none').sum(dim=-1)
    return (each * weight).sum() / weight.sum() * TEMPERATURE**2


def gaze_distance(student: Tensor, teacher: Tensor) -> Tensor:
    """Return the mean divergence of attention (queries, tokens)."""
    theirs, ours = teacher.float() + 1e-6, student.float() + 1e-6
    return (theirs * (theirs / ours).log()).sum(dim=-1).mean()

# SPDX-License-Identifier: Apache-2.0
from cloud_backbone.distillation.opinion import gaze_distance, odds_distance
import torch


def test_the_same_opinion_costs_nothing() -> None:
    """A student that thinks like its teacher has no extra loss; another one has."""
    logits = torch.randn(5, 11, generator=torch.Generator().manual_seed(0))
    weight = torch.tensor([1.0, 1.0, 5.0, 1.0, 1.0])
    assert abs(float(odds_distance(logits, logits, weight))) < 1e-6
    assert float(odds_distance(logits.flip(0), logits, weight)) > 0.1
    look = logits.softmax(dim=-1)
    assert abs(float(gaze_distance(look, look))) < 1e-6


def test_decisions_weigh_more() -> None:
    """The same disagreement costs more at a token with more weight."""
    teacher = torch.zeros(2, 4)
    student = torch.zeros(2, 4)
    student[0, 0] = 3.0
    light = odds_distance(student, teacher, torch.tensor([1.0, 1.0]))
    heavy = odds_distance(student, teacher, torch.tensor([5.0, 1.0]))
    assert heavy > light

# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from cloud_backbone.distillation.resume import Resume
import torch
from torch import nn


def steps(model: nn.Linear, resume: Resume, until: int) -> int:
    """Train `model` up to step `until`; return the step at which it began."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), 0.1)
    begin = resume.load(model, optimizer, generator)
    for step in range(begin, until):
        loss = model(torch.rand(4, 3, generator=generator)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        resume.save(step + 1, model, optimizer, generator)
    return begin


def line() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 1)


def test_an_interrupted_training_ends_like_a_whole_one(tmp_path: Path) -> None:
    """Going on from a stored state gives the weights of a training without a break."""
    whole, first, second = line(), line(), line()
    steps(whole, Resume(None), 6)
    steps(first, Resume(tmp_path, every=2), 4)
    assert steps(second, Resume(tmp_path, every=2), 6) == 4
    assert torch.equal(whole.weight, second.weight)


def test_a_finished_stage_leaves_nothing(tmp_path: Path) -> None:
    """After clear() a training begins at the first step."""
    resume = Resume(tmp_path, every=1)
    steps(line(), resume, 2)
    resume.clear()
    assert steps(line(), resume, 1) == 0

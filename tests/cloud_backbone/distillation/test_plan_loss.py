# SPDX-License-Identifier: Apache-2.0
from cloud_backbone.distillation.plan_loss import location_targets
from cloud_backbone.model.configuration import LOCATION_TOKENS
import pytest
import torch


def test_location_targets_mean_the_true_value() -> None:
    """The expectation of a target is the true value, finer than a bin."""
    location = torch.tensor([0.2, 0.503, 0.77])
    bins = location_targets(location)
    assert bins.sum(dim=-1).tolist() == pytest.approx([1.0] * 3)
    order = torch.arange(LOCATION_TOKENS)
    mean = ((bins * order).sum(dim=-1) + 0.5) / LOCATION_TOKENS
    assert mean.tolist() == pytest.approx(location.tolist(), abs=1e-4)

# SPDX-License-Identifier: Apache-2.0
"""Promises of the rule that keeps the first and the most recent tokens."""

from cloud_backbone.kv_cache.sinks import Sinks
import pytest
import torch


def test_sinks_come_first_and_then_the_recent() -> None:
    """The best six of ten are the two sinks and the last four, wherever they lie."""
    positions = torch.tensor([[7, 0, 9, 3, -1, 1, 8, 2, 6, 5, 4]]).expand(3, 11)
    scores = Sinks(sinks=2).scores({}, positions)
    assert sorted(positions[0, scores[0].topk(6).indices].tolist()) == [0, 1, 6, 7, 8, 9]


def test_late_positions_are_told_apart() -> None:
    """Scores are exact far beyond any context."""
    positions = torch.tensor([[16_000_000, 16_000_001]])
    scores = Sinks().scores({}, positions)
    assert scores[0, 1] > scores[0, 0]


def test_a_negative_number_of_sinks_is_refused() -> None:
    """The message names the number."""
    with pytest.raises(ValueError, match='-1 sinks'):
        Sinks(sinks=-1)

# SPDX-License-Identifier: Apache-2.0
"""Promises of the wide window: its equation, and what decoding does to new tokens."""

from cloud_backbone.kv_cache.snapkv import SnapKV
from cloud_backbone.kv_cache.wide import Wide
import pytest
import torch

from tests.cloud_backbone.kv_cache.attention_rows import attention_rows, fresh, prompt


def test_score_is_the_mean_of_all_rows_and_a_part_of_snapkv() -> None:
    """For slots before the window the equation is that of the text, with SnapKV's near rows."""
    positions, queries = prompt(2, 100, 48)
    attention = attention_rows(positions, queries)
    scorer, near = Wide(window=48, near=8), SnapKV(window=8)
    found = scorer.observe(fresh(scorer, positions), attention, positions, queries)['mean']
    last = near.observe(
        fresh(near, positions), attention[:, :, -8:], positions, queries[-8:]
    )['mean']
    wanted = attention.mean((1, 2)) + 0.25 * last.float()
    torch.testing.assert_close(found[:, :52].float(), wanted[:, :52], rtol=0.01, atol=1e-5)


def test_a_question_is_heard_among_many_rows() -> None:
    """What only the last few rows look at outranks what all others barely see."""
    positions, queries = prompt(1, 400, 200)
    attention = torch.full((1, 1, 200, 400), 1e-3)
    attention[..., -6:, 50] = 0.3
    attention[..., 120] = 0.005
    scorer = Wide(window=200)
    columns = scorer.observe(fresh(scorer, positions), attention, positions, queries)
    scores = scorer.scores(columns, positions)
    assert float(scores[0, 50]) > float(scores[0, 120])


@pytest.mark.parametrize('step', [1, 4])
def test_new_token_scores_as_an_old_one_of_equal_attention(step: int) -> None:
    """A token that comes while decoding is not held back by the rows that were before it."""
    scorer = Wide(window=64, near=8)
    positions, queries = prompt(1, 100, 64)
    attention = torch.full((1, 1, 64, 100), 0.01)
    columns = scorer.observe(fresh(scorer, positions), attention, positions, queries)
    columns = {'mean': torch.cat([columns['mean'], torch.zeros(1, step).bfloat16()], 1)}
    positions = torch.arange(100 + step, dtype=torch.int32)[None]
    for first in range(100, 140, step):
        rows = torch.arange(first, first + step, dtype=torch.int32)
        visible = positions[:, None, None] <= rows[:, None]
        columns = scorer.observe(columns, 0.01 * visible.float(), positions, rows)
    scores = scorer.scores(columns, positions)[0]
    assert float(scores[100:].min()) == pytest.approx(float(scores[20]), rel=0.1)


@pytest.mark.parametrize('sizes', [{'window': 0}, {'near': 0}, {'kernel': 2}, {'strength': -1.0}])
def test_sizes_that_cannot_be_are_refused(sizes: dict[str, int]) -> None:
    """A window without rows, a kernel without a middle and a negative part are errors."""
    with pytest.raises(ValueError, match=r'window|kernel|strength'):
        Wide(**sizes)

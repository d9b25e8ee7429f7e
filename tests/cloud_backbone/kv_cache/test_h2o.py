# SPDX-License-Identifier: Apache-2.0
"""Promises of the rule that keeps the heavy hitters."""

from cloud_backbone.kv_cache.h2o import H2O
import pytest
import torch

from tests.cloud_backbone.kv_cache.attention_rows import attention_rows, fresh, prompt


def test_the_mass_is_the_sum_over_rows_and_the_mean_over_the_group() -> None:
    """As a loop over rows and heads adds it up."""
    positions, queries = prompt(2, 12, 12)
    attention = attention_rows(positions, queries, group=3)
    mass = H2O().observe(fresh(H2O(), positions), attention, positions, queries)['mass']
    for head in range(2):
        for slot in range(12):
            rows = [attention[head, h, i, slot].item() for h in range(3) for i in range(12)]
            assert mass[head, slot].item() == pytest.approx(sum(rows) / 3)


def test_sixteen_thousand_rows_do_not_stall_the_sum() -> None:
    """A late token of twice the weight overtakes in time; in half precision neither moves."""
    positions = torch.arange(2).expand(1, 2)
    columns = {'mass': torch.tensor([[10.0, 9.8]])}
    row = torch.tensor([[[[1 / 16384, 2 / 16384]]]])
    for _ in range(8192):
        columns = H2O().observe(columns, row, positions, torch.tensor([1]))
    assert columns['mass'][0].tolist() == pytest.approx([10.5, 10.8], abs=0.01)
    start = torch.tensor(10.0, dtype=torch.float16)
    assert start + 2 / 16384 == start

# SPDX-License-Identifier: Apache-2.0
"""Promises that every scorer keeps."""

from cloud_backbone.kv_cache.cake import Cake
from cloud_backbone.kv_cache.h2o import H2O
from cloud_backbone.kv_cache.replay import Replay
from cloud_backbone.kv_cache.scorer import Scorer
from cloud_backbone.kv_cache.sinks import Sinks
from cloud_backbone.kv_cache.snapkv import SnapKV
from cloud_backbone.kv_cache.veda import Veda
from cloud_backbone.kv_cache.wide import Wide
import pytest
import torch

from tests.cloud_backbone.kv_cache.attention_rows import attention_rows, fresh, prompt

SCORERS: list[Scorer] = [
    Sinks(),
    SnapKV(),
    H2O(),
    Cake(),
    Wide(),
    Replay(),
    Veda(reserved=4),
    Veda(reserved=4, stats='paper', vote='sum_heads', protect=False),
    Veda(reserved=4, reads='window'),
]


@pytest.fixture(params=SCORERS, ids=repr)
def scorer(request: pytest.FixtureRequest) -> Scorer:
    """Each of the scorers in turn."""
    chosen: Scorer = request.param
    return chosen


@pytest.mark.parametrize('tokens', [1, 2, 31, 32, 80])
@pytest.mark.parametrize('rows', [1, 2, 32, 80])
def test_columns_keep_names_shapes_and_types(scorer: Scorer, tokens: int, rows: int) -> None:
    """Any number of tokens and rows works, also fewer than a window; nothing is NaN."""
    positions, queries = prompt(3, tokens, min(rows, tokens))
    before = fresh(scorer, positions)
    after = scorer.observe(before, attention_rows(positions, queries), positions, queries)
    assert after.keys() == before.keys()
    for name, column in after.items():
        assert column.shape == before[name].shape
        assert column.dtype == scorer.columns[name]
    scores = scorer.scores(after, positions)
    assert scores.dtype == torch.float32
    assert scores.shape == (3 if scorer.per_head else 1, tokens)
    assert not scores.isnan().any()


def test_nothing_given_is_changed(scorer: Scorer) -> None:
    """A scorer returns new columns: a failed step can be undone by dropping them."""
    positions, queries = prompt(2, 50, 32)
    columns, attention = fresh(scorer, positions), attention_rows(positions, queries)
    kept = attention.clone()
    scorer.observe(columns, attention, positions, queries)
    assert attention.equal(kept)
    assert all(not column.any() for column in columns.values())


def test_a_scorer_remembers_nothing_itself(scorer: Scorer) -> None:
    """The same rows and columns give the same result, whatever was shown before."""
    positions, queries = prompt(2, 50, 32)
    attention = attention_rows(positions, queries)
    first = scorer.observe(fresh(scorer, positions), attention, positions, queries)
    scorer.observe(first, attention_rows(positions, queries, seed=1), positions, queries)
    again = scorer.observe(fresh(scorer, positions), attention, positions, queries)
    assert all(again[name].equal(first[name]) for name in first)


@pytest.mark.parametrize('rows', [1, 20])
def test_the_order_of_slots_does_not_matter(scorer: Scorer, rows: int) -> None:
    """Freed slots are used again, so neighbours in the row need not be neighbours in the text."""
    positions, queries = prompt(2, 60, rows)
    attention = attention_rows(positions, queries)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    straight = scorer.scores(
        scorer.observe(fresh(scorer, positions), attention, positions, queries), positions
    )
    moved = positions[:, order]
    mixed = scorer.scores(
        scorer.observe(fresh(scorer, moved), attention[..., order], moved, queries), moved
    )
    torch.testing.assert_close(mixed, straight[:, order])


def test_dead_slots_change_nothing(scorer: Scorer) -> None:
    """The score of a living slot is the same with and without dead ones between."""
    positions, queries = prompt(2, 60, 20)
    attention = attention_rows(positions, queries)
    dead = torch.full((2, 7), -1)
    wide = torch.cat([positions[:, :11], dead, positions[:, 11:]], 1)
    gap = attention.new_zeros(*attention.shape[:3], 7)
    more = torch.cat([attention[..., :11], gap, attention[..., 11:]], 3)
    alone = scorer.observe(fresh(scorer, positions), attention, positions, queries)
    among = scorer.observe(fresh(scorer, wide), more, wide, queries)
    living = wide[0] >= 0
    torch.testing.assert_close(
        scorer.scores(among, wide)[:, living], scorer.scores(alone, positions)
    )


@pytest.mark.parametrize('block', [1, 16, 33])
@pytest.mark.parametrize('scorer', [s for s in SCORERS if s.reads == 'rows'], ids=repr)
def test_blocks_of_rows_equal_one_call(scorer: Scorer, block: int) -> None:
    """A scorer that reads all rows ends alike, however the prefill is cut."""
    positions, queries = prompt(2, 70, 70)
    attention = attention_rows(positions, queries)
    whole = scorer.observe(fresh(scorer, positions), attention, positions, queries)
    columns = fresh(scorer, positions)
    for start in range(0, 70, block):
        rows = slice(start, start + block)
        columns = scorer.observe(columns, attention[:, :, rows], positions, queries[rows])
    torch.testing.assert_close(scorer.scores(columns, positions), scorer.scores(whole, positions))


@pytest.mark.parametrize('scorer', [s for s in SCORERS if s.reads != 'nothing'], ids=repr)
def test_what_is_looked_at_outlives_what_is_not(scorer: Scorer) -> None:
    """After a prompt and some steps, the token that all rows look at ranks above its rival."""
    positions, queries = prompt(2, 100, 32)
    attention = torch.full((2, 2, 32, 100), 1e-3)
    attention[..., 20], attention[..., 60] = 0.5, 0
    columns = scorer.observe(fresh(scorer, positions), attention, positions, queries)
    for _ in range(5):
        columns = scorer.observe(columns, attention[:, :, -1:], positions, queries[-1:])
    scores = scorer.scores(columns, positions)
    assert (scores[:, 20] > scores[:, 60]).all()

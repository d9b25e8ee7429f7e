# SPDX-License-Identifier: Apache-2.0
"""Promises of the rule that lets rows vote against tokens."""

from typing import Literal

from cloud_backbone.kv_cache.veda import Veda
import pytest
import torch
from torch import Tensor

from tests.cloud_backbone.kv_cache.attention_rows import attention_rows, fresh, prompt

VOTE = Literal['mean_head', 'sum_heads']
STATS = Literal['exclude_reserved', 'paper']


def by_loop(veda: Veda, attention: Tensor, positions: Tensor, queries: Tensor) -> list[int]:
    """Return the votes against each slot as the paper's text counts them, row by row."""
    rows = attention.flatten(0, 1).double()
    if veda.vote == 'mean_head':
        rows = rows.mean(0, keepdim=True)
    place = positions[0].tolist()
    first = veda.reserved if veda.stats == 'exclude_reserved' else 0
    votes = [0] * len(place)
    for head in range(len(rows)):
        for i, query in enumerate(queries.tolist()):
            seen = [j for j in range(len(place)) if first <= place[j] <= query]
            if query < veda.reserved or not seen:
                continue
            weights = {j: rows[head, i, j].item() for j in seen}
            mass = sum(weights.values())
            shares = {j: weights[j] / mass for j in seen}
            mean = 1 / len(seen)
            variance = sum((share - mean) ** 2 for share in shares.values()) / len(seen)
            threshold = mean - 0.2 * variance**0.5
            if threshold < 0:
                votes[min(seen, key=lambda j: (weights[j], place[j]))] += 1
            else:
                for j in seen:
                    votes[j] += shares[j] < threshold
    return votes


@pytest.mark.parametrize('vote', ['mean_head', 'sum_heads'])
@pytest.mark.parametrize('stats', ['exclude_reserved', 'paper'])
@pytest.mark.parametrize('sharpness', [0.5, 3.0, 8.0])
@pytest.mark.parametrize('reserved', [0, 8])
def test_votes_equal_a_loop(vote: VOTE, stats: STATS, sharpness: float, reserved: int) -> None:
    """Every vote of every row, for flat attention and for such with sinks, dead slots between."""
    positions, queries = prompt(2, 90, 90)
    positions = positions.clone()
    positions[:, [3, 40, 41]] = -1
    positions = positions[:, torch.randperm(90, generator=torch.Generator().manual_seed(3))]
    attention = attention_rows(positions, queries, sharpness=sharpness)
    veda = Veda(vote=vote, stats=stats, reserved=reserved)
    votes = veda.observe(fresh(veda, positions), attention, positions, queries)['votes']
    assert votes[0].tolist() == by_loop(veda, attention, positions, queries)
    assert votes.sum() > 0


def test_a_row_with_a_negative_threshold_votes_once() -> None:
    """One sink among 300 slots leaves one vote a row by the paper's statistics, many by ours."""
    positions = torch.arange(300).expand(1, 300)
    attention = attention_rows(positions, torch.tensor([299]), group=1, sharpness=0.3)
    attention[..., 0] = 0
    attention *= 0.6 / attention.sum(-1, keepdim=True)
    attention[..., 0] = 0.4
    counts = {}
    for stats in ('paper', 'exclude_reserved'):
        veda = Veda(stats=stats)  # type: ignore[arg-type]
        votes = veda.observe(fresh(veda, positions), attention, positions, torch.tensor([299]))
        counts[stats] = int(votes['votes'].sum())
    assert counts['paper'] == 1
    assert counts['exclude_reserved'] > 50


def test_equal_smallest_weights_cost_the_earliest_position() -> None:
    """Of equals the earliest gets the vote, wherever it lies."""
    positions = torch.tensor([[5, 2, 0, 1, 4, 3] + list(range(6, 60))])
    attention = torch.zeros(1, 1, 1, 60)
    attention[..., 2] = 1
    veda = Veda(reserved=0, stats='paper')
    votes = veda.observe(fresh(veda, positions), attention, positions, torch.tensor([59]))
    assert votes['votes'][0].nonzero().flatten().tolist() == [3]


def test_reserved_rows_do_not_vote() -> None:
    """The first 32 rows change nothing; the next one does."""
    positions, queries = prompt(1, 33, 33)
    attention = attention_rows(positions, queries)
    veda = Veda(stats='paper')
    votes = veda.observe(fresh(veda, positions), attention[:, :, :32], positions, queries[:32])
    assert not votes['votes'].any()
    votes = veda.observe(votes, attention[:, :, 32:], positions, queries[32:])
    assert votes['votes'].any()


def test_reserved_positions_are_kept_unless_asked_otherwise() -> None:
    """They rank above all others by default, and by their votes without protection."""
    positions = torch.tensor([[0, 31, 32, 40]])
    columns = {'votes': torch.tensor([[9, 9, 0, 1]], dtype=torch.int16)}
    assert Veda().scores(columns, positions)[0].argsort().tolist()[:2] == [3, 2]
    assert Veda(protect=False).scores(columns, positions)[0].tolist() == [-9, -9, 0, -1]


@pytest.mark.parametrize('vote', ['mean_head', 'sum_heads'])
def test_votes_stop_at_the_largest_number(vote: VOTE) -> None:
    """A much voted slot never wraps round to the best score."""
    positions, queries = prompt(2, 90, 50)
    veda = Veda(vote=vote, reserved=4)
    columns = {'votes': torch.full((1, 90), 32760, dtype=torch.int16)}
    columns = veda.observe(columns, attention_rows(positions, queries), positions, queries)
    assert columns['votes'].min() >= 32760
    assert columns['votes'].max() == 32767


def test_all_weight_on_reserved_slots_votes_against_nobody() -> None:
    """No weight to compare is no reason to vote, and no NaN."""
    positions = torch.arange(50).expand(1, 50)
    attention = torch.zeros(1, 1, 1, 50)
    attention[..., 0] = 1
    veda = Veda()
    votes = veda.observe(fresh(veda, positions), attention, positions, torch.tensor([49]))
    assert not votes['votes'].any()


def test_unknown_choices_are_refused() -> None:
    """The message names the choice and the known ones."""
    with pytest.raises(ValueError, match="vote 'loudest'; known are mean_head, sum_heads"):
        Veda(vote='loudest')  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="reads 'nothing'; known are rows, window"):
        Veda(reads='nothing')
    with pytest.raises(ValueError, match='reserved -1'):
        Veda(reserved=-1)
    with pytest.raises(ValueError, match='b nan'):
        Veda(b=float('nan'))

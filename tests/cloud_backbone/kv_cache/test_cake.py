# SPDX-License-Identifier: Apache-2.0
"""Promises of the rule that keeps what is looked at steadily or by turns."""

import math

from cloud_backbone.kv_cache.cake import Cake, PAPER_TAUS, preference, Taus
from cloud_backbone.kv_cache.scorer import Columns
from cloud_backbone.kv_cache.snapkv import SnapKV
import pytest
import torch
from torch import Tensor

from tests.cloud_backbone.kv_cache.attention_rows import attention_rows, fresh, prompt


def observed(scorer: Cake | SnapKV, tokens: int, rows: int, steps: int) -> tuple[Columns, Tensor]:
    """Return columns and positions after a prompt, some steps and a second turn of five rows."""
    positions, queries = prompt(2, tokens, rows)
    columns = scorer.observe(
        fresh(scorer, positions), attention_rows(positions, queries), positions, queries
    )
    for step in [1] * steps + [5]:
        tokens += step
        columns = {
            name: torch.cat([column, column.new_zeros(2, step)], 1)
            for name, column in columns.items()
        }
        positions, queries = prompt(2, tokens, step)
        rows_ = attention_rows(positions, queries, seed=tokens)
        columns = scorer.observe(columns, rows_, positions, queries)
    return columns, positions


@pytest.mark.parametrize(('tokens', 'rows'), [(120, 32), (20, 20), (1, 1)])
def test_without_variance_it_is_snapkv_to_the_bit(tokens: int, rows: int) -> None:
    """Gamma 0 ranks as SnapKV in a prompt, while decoding and in a second turn."""
    cake, snap = Cake(gamma=0), SnapKV()
    columns, positions = observed(cake, tokens, rows, 10)
    others, _ = observed(snap, tokens, rows, 10)
    assert cake.scores(columns, positions).equal(snap.scores(others, positions))


def test_the_score_of_a_prompt_is_that_of_the_paper() -> None:
    """Mean plus 200 times variance over the rows, pooled over five neighbours, group mean."""
    positions, queries = prompt(2, 100, 32)
    attention = attention_rows(positions, queries, group=3)
    cake = Cake()
    scores = cake.scores(
        cake.observe(fresh(cake, positions), attention, positions, queries), positions
    )
    before = attention[..., :68]
    raw = before.mean(2) + 200 * before.var(2)
    paper = torch.nn.functional.avg_pool1d(raw, 5, 1, 2).mean(1)
    torch.testing.assert_close(scores[:, :68], paper, rtol=0.01, atol=0)


def test_what_is_looked_at_by_turns_beats_the_same_mean() -> None:
    """Of two tokens of equal mean the one whose weight moves is kept."""
    positions, queries = prompt(1, 80, 32)
    attention = torch.full((1, 1, 32, 80), 1e-4)
    attention[..., 10] = 0.05
    attention[..., ::2, 30] = 0.1
    cake = Cake()
    scores = cake.scores(
        cake.observe(fresh(cake, positions), attention, positions, queries), positions
    )
    assert scores[0, 30] > 1.5 * scores[0, 10]


def test_variance_of_small_weights_survives() -> None:
    """Weights of 1e-4 that vary by their half leave a variance that half precision flushes."""
    positions, queries = prompt(1, 80, 32)
    attention = torch.full((1, 1, 32, 80), 1e-4)
    attention[..., ::2, :] = 0.5e-4
    cake = Cake(kernel=1)
    columns = cake.observe(fresh(cake, positions), attention, positions, queries)
    true = attention[0, 0, :, 5].var().item()
    assert columns['variance'][0, 5].item() == pytest.approx(true, rel=0.01)
    assert torch.tensor(true).half() == 0


def test_decoding_is_an_exponential_mean_and_variance() -> None:
    """Fifty single rows end where the plain recursion does."""
    generator = torch.Generator().manual_seed(0)
    cake = Cake()
    positions = torch.arange(4).expand(1, 4)
    columns = fresh(cake, positions)
    mean = [0.0] * 4
    variance = [0.0] * 4
    for _ in range(50):
        row = torch.rand(1, 2, 1, 4, generator=generator).softmax(-1)
        columns = cake.observe(columns, row, positions, torch.tensor([3]))
        for slot in range(4):
            step = row[0, :, 0, slot].mean().item() - mean[slot]
            mean[slot] += step / 32
            variance[slot] = 31 / 32 * (variance[slot] + step * step / 32)
    assert columns['mean'][0].tolist() == pytest.approx(mean, rel=0.1)
    assert columns['variance'][0].tolist() == pytest.approx(variance, rel=0.1)


def test_one_row_has_no_variance() -> None:
    """A prompt of one token is scored by its mean alone."""
    positions, queries = prompt(2, 1, 1)
    cake = Cake()
    columns = cake.observe(
        fresh(cake, positions), attention_rows(positions, queries), positions, queries
    )
    assert (columns['mean'] > 0).all()
    assert columns['variance'].isfinite().all()


def test_the_preference_is_that_of_the_paper() -> None:
    """Dispersion and shift of the columns before the window, each to its power."""
    positions, queries = prompt(2, 90, 32)
    attention = attention_rows(positions, queries)
    before = attention[..., :58]
    dispersion = -(before * before.log()).sum().item()
    shift = before.var(2).sum().item()
    expected = dispersion ** (1 / 1.6) * shift ** (1 / 0.4)
    assert preference(attention, 58, Taus(1.6, 0.4)) == pytest.approx(expected, rel=1e-4)
    assert preference(attention, 58) == pytest.approx(dispersion * shift, rel=1e-4)


def test_a_layer_that_looks_around_wants_more() -> None:
    """Scattered, moving attention is preferred to one fixed sink."""
    positions, queries = prompt(2, 90, 32)
    scattered = attention_rows(positions, queries, sharpness=3)
    fixed = torch.zeros_like(scattered)
    fixed[..., 0], fixed[..., 1] = 0.9, 0.1
    assert preference(scattered, 58) > preference(fixed, 58)


@pytest.mark.parametrize(('rows', 'fresh_from'), [(1, 58), (32, 0), (1, 0), (2, 1)])
@pytest.mark.parametrize('weight', [0.0, 1.0, 1e-30, math.nan])
@pytest.mark.parametrize('taus', [Taus(), Taus(0.01, 0.01), *PAPER_TAUS.values()])
def test_a_preference_is_always_positive_and_finite(
    rows: int, fresh_from: int, weight: float, taus: Taus
) -> None:
    """No rows to vary over, nothing before the window, constant or broken weights: a number."""
    attention = torch.full((2, 2, rows, 90), weight)
    assert 0 < preference(attention, fresh_from, taus) < math.inf


@pytest.mark.parametrize('bad', [0.0, -1.0, math.nan, math.inf])
def test_taus_and_gamma_without_meaning_are_refused(bad: float) -> None:
    """The message names the value."""
    with pytest.raises(ValueError, match=str(bad)):
        Taus(tau2=bad)
    if bad != 0:
        with pytest.raises(ValueError, match=str(bad)):
            Cake(gamma=bad)

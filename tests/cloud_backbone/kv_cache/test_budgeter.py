# SPDX-License-Identifier: Apache-2.0
"""Promises of the sharing of slots among layers."""

import math

from cloud_backbone.kv_cache.budgeter import cascade_budgets, pyramid, share, uniform
from hypothesis import given, settings
from hypothesis import strategies as st
import pytest
import torch

WEIGHT = st.floats(1e-30, 1e30)
LAYERS = st.lists(
    st.tuples(WEIGHT, st.integers(0, 300), st.integers(0, 40)), min_size=1, max_size=12
)


def one_by_one(total: int, weights: list[float], caps: list[int], floors: list[int]) -> list[int]:
    """Return the same shares by the plainest form of the rule."""
    held = [min(floor, cap) for floor, cap in zip(floors, caps, strict=True)]
    for _ in range(min(total, sum(caps)) - sum(held)):
        open_ = [i for i in range(len(caps)) if held[i] < caps[i]]
        held[max(open_, key=lambda i: (weights[i] / (2 * held[i] + 1), -i))] += 1
    return held


@given(LAYERS, st.integers(0, 2000))
@settings(max_examples=200, deadline=None)
def test_share_is_exact_and_within_bounds(
    layers: list[tuple[float, int, int]], above: int
) -> None:
    """All slots that fit are given, no layer gets less than its floor or more than its cap."""
    weights, caps, floors = (list(column) for column in zip(*layers, strict=True))
    total = sum(min(f, c) for f, c in zip(floors, caps, strict=True)) + above
    budgets = share(total, weights, caps, floors)
    assert sum(budgets) == min(total, sum(caps))
    assert all(min(f, c) <= b <= c for b, f, c in zip(budgets, floors, caps, strict=True))


@given(LAYERS, st.integers(0, 500))
@settings(max_examples=200, deadline=None)
def test_share_equals_the_plain_rule(layers: list[tuple[float, int, int]], above: int) -> None:
    """Handing most slots out at once ends where handing out one by one does."""
    weights, caps, floors = (list(column) for column in zip(*layers, strict=True))
    total = sum(min(f, c) for f, c in zip(floors, caps, strict=True)) + above
    assert share(total, weights, caps, floors) == one_by_one(total, weights, caps, floors)


@given(st.lists(st.tuples(WEIGHT, st.integers(0, 300)), min_size=2, max_size=12), st.data())
@settings(max_examples=200, deadline=None)
def test_no_budget_grows_as_layers_come(
    layers: list[tuple[float, int]], data: st.DataObject
) -> None:
    """A cascade only ever takes, and each of its steps is exact."""
    preferences, caps = (list(column) for column in zip(*layers, strict=True))
    total = data.draw(st.integers(0, 1500))
    before = [total] * len(caps)
    for layer in range(1, len(caps) + 1):
        budgets = cascade_budgets(total, preferences[:layer], caps[:layer])
        assert sum(budgets) == min(total, sum(caps[:layer]))
        assert all(new <= old for new, old in zip(budgets, before[: layer - 1], strict=False))
        before = budgets
    assert before == share(total, preferences, caps, [0] * len(caps))


def test_rounding_does_not_give_back() -> None:
    """Weights 1, 6, 1 and three slots: largest remainders would go from 0, 3 to 1, 2, 0."""
    assert cascade_budgets(3, [1.0, 6.0], [9, 9]) == [0, 3]
    assert cascade_budgets(3, [1.0, 6.0, 1.0], [9, 9, 9]) == [0, 3, 0]


def test_cascade_equals_one_shot_on_stored_scores() -> None:
    """Keeping the best after each layer keeps the tokens that one eviction at the end keeps."""
    generator = torch.Generator().manual_seed(0)
    layers, tokens, total = 6, 200, 300
    indicators = torch.randn(layers, tokens, generator=generator)
    preferences = torch.rand(layers, generator=generator).add(0.01).tolist()
    kept: list[torch.Tensor] = []
    for layer in range(layers):
        kept.append(torch.arange(tokens))
        budgets = cascade_budgets(total, preferences[: layer + 1], [tokens] * (layer + 1))
        for i, budget in enumerate(budgets):
            kept[i] = kept[i][indicators[i, kept[i]].topk(budget).indices]
    final = share(total, preferences, [tokens] * layers, [0] * layers)
    assert len(set(final)) > 1
    for i, budget in enumerate(final):
        assert set(kept[i].tolist()) == set(indicators[i].topk(budget).indices.tolist())


def test_what_a_full_layer_cannot_use_goes_to_the_others() -> None:
    """Water above a cap is shared by weight."""
    assert share(100, [8.0, 1.0, 1.0], [20, 100, 100], [0, 0, 0]) == [20, 40, 40]


def test_floors_are_paid_by_the_others() -> None:
    """A layer of little weight keeps its floor."""
    assert share(100, [1.0, 1.0, 1e-9], [100, 100, 100], [0, 0, 10]) == [45, 45, 10]


def test_a_floor_above_the_cap_counts_as_the_cap() -> None:
    """A layer that holds fewer slots than are protected keeps what it holds."""
    assert share(10, [1.0, 1.0], [2, 20], [4, 4]) == [2, 8]


@pytest.mark.parametrize('bad', [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_a_weight_without_value_is_an_equal_share(bad: float) -> None:
    """Zero, negative, NaN and infinite weights are defined, alone and among others."""
    assert share(12, [bad] * 3, [9] * 3, [0] * 3) == [4, 4, 4]
    assert share(12, [1.0, 3.0, bad], [99] * 3, [0] * 3) == [2, 6, 4]


@pytest.mark.parametrize('weights', [[5e-324, 1.7e308], [1.7e308, 1.7e308], [5e-324, 5e-324]])
def test_weights_at_the_ends_of_the_range_are_shared_exactly(weights: list[float]) -> None:
    """Neither overflow nor underflow loses a slot."""
    assert sum(share(11, weights, [8, 8], [1, 1])) == 11


def test_many_slots_are_as_quick_as_few() -> None:
    """A share of billions of slots, which no loop over slots would finish, is exact."""
    total = 10**10
    assert sum(share(total, pyramid(30), [10**9] * 30, [32] * 30)) == total


def test_no_layers_share_nothing() -> None:
    """The empty share is defined."""
    assert share(5, [], [], []) == []


@pytest.mark.parametrize(
    ('total', 'weights', 'caps', 'floors'),
    [
        (3, [1.0, 1.0], [9, 9], [2, 2]),
        (-1, [1.0], [9], [0]),
        (3, [1.0], [9, 9], [0, 0]),
        (3, [1.0, 1.0], [9, -9], [0, 0]),
    ],
)
def test_shares_that_cannot_be_are_refused(
    total: int, weights: list[float], caps: list[int], floors: list[int]
) -> None:
    """Floors above the total, negative numbers and lists that do not fit are errors."""
    with pytest.raises(ValueError, match=r'fit together|slots to share'):
        share(total, weights, caps, floors)


@pytest.mark.parametrize('bad', [0.0, -1.0, math.nan, math.inf])
def test_a_cascade_refuses_preferences_without_value(bad: float) -> None:
    """What stands in for them would change with each layer; the message names the value."""
    with pytest.raises(ValueError, match=str(bad)):
        cascade_budgets(10, [1.0, bad], [9, 9])


@pytest.mark.parametrize(('layers', 'beta'), [(1, 20), (2, 20), (30, 20), (30, 1), (7, 2.5)])
def test_pyramid_is_an_arithmetic_sequence_of_mean_one(layers: int, beta: float) -> None:
    """The last layer weighs 1 / beta, each step is the same, the mean is one."""
    weights = pyramid(layers, beta)
    assert sum(weights) == pytest.approx(layers)
    if layers > 1:
        assert weights[-1] == pytest.approx(1 / beta)
    steps = [a - b for a, b in zip(weights, weights[1:], strict=False)]
    assert steps == pytest.approx([steps[0]] * len(steps) if steps else [])


@pytest.mark.parametrize('beta', [0.5, math.nan, -3])
def test_pyramid_does_not_rise(beta: float) -> None:
    """A beta below one would starve the first layers instead."""
    with pytest.raises(ValueError, match='beta'):
        pyramid(4, beta)


def test_uniform_weighs_all_alike() -> None:
    """Equal weights, one a layer."""
    assert share(9, uniform(3), [9] * 3, [0] * 3) == [3, 3, 3]

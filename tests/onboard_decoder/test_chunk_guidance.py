# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.chunk_guidance import guided, soft_mask
import pytest

Array = NDArray[np.float64]
RNG = np.random.default_rng(0)
NOISE = RNG.standard_normal((50, 7))
POLICY, TAIL = RNG.uniform(-1, 1, (2, 50, 7))


def constant(chunk: Array, tau: float) -> Array:
    """Sees the same chunk in any noise."""
    return POLICY


def leaning(chunk: Array, tau: float) -> Array:
    """Sees a chunk that depends on the noise."""
    return 0.8 * POLICY + 0.2 * np.tanh(chunk) + 0.05 * tau


def test_the_mask_is_that_of_the_paper() -> None:
    """With s executed and d frozen rows of H: c = (H - s - i) / (H - s - d + 1), e^c-weighted."""
    horizon, frozen, executed = 50, 4, 30
    mask = soft_mask(horizon - frozen, horizon - executed - frozen)

    for row in range(frozen, horizon):
        c = (horizon - executed - row) / (horizon - executed - frozen + 1)
        wanted = c * (math.exp(c) - 1) / (math.e - 1) if row < horizon - executed else 0.0
        assert mask[row - frozen] == pytest.approx(wanted)


@pytest.mark.parametrize('overlap', [0, 1, 5, 49, 50])
def test_the_mask_falls_from_one_to_nothing(overlap: int) -> None:
    """Between 0 and 1, never rising, 0 from the end of the overlap on."""
    mask = soft_mask(50, overlap)

    assert ((mask >= 0) & (mask <= 1)).all()
    assert (np.diff(mask) <= 0).all()
    assert not mask[overlap:].any()


def test_without_a_tail_a_chunk_is_what_the_policy_sees() -> None:
    """Nothing pulls: the last step ends at what is seen."""
    np.testing.assert_allclose(guided(constant, NOISE, None, soft_mask(50, 9)[:, None]), POLICY)


@pytest.mark.parametrize('steps', [1, 2, 5, 9])
def test_the_overlap_is_pulled_to_the_tail_by_the_mask(steps: int) -> None:
    """Row by row, the mask is the share of the way to the tail."""
    mask = np.tile(soft_mask(50, 9)[:, None], 7)
    mask[:, 6] = 0.0

    chunk = guided(constant, NOISE, TAIL, mask, steps)

    np.testing.assert_allclose(chunk, POLICY + mask * (TAIL - POLICY), atol=1e-12)


@pytest.mark.parametrize('policy', [constant, leaning])
def test_where_the_mask_is_one_the_tail_is_reached(policy) -> None:  # type: ignore[no-untyped-def]
    """No step is left at the end of the frozen prefix, whatever the policy sees."""
    mask = np.ones((50, 1))

    np.testing.assert_allclose(guided(policy, NOISE, TAIL, mask), TAIL, atol=1e-12)


def test_the_policy_sees_what_it_was_trained_on() -> None:
    """Each pass is shown noise and the guided chunk, mixed by tau: nothing is overdrawn."""
    mask = np.full((50, 1), 0.7)
    end = POLICY + mask * (TAIL - POLICY)
    shown: list[tuple[Array, float]] = []

    def watched(chunk: Array, tau: float) -> Array:
        shown.append((chunk, tau))
        return POLICY

    guided(watched, NOISE, TAIL, mask, steps=5)

    assert [tau for _, tau in shown] == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8])
    for chunk, tau in shown:
        np.testing.assert_allclose(chunk, (1 - tau) * NOISE + tau * end, atol=1e-12)


def test_a_constant_policy_stays_constant_through_a_hundred_merges() -> None:
    """What stands still keeps standing still: guidance adds up nothing."""
    mask, tail = soft_mask(50, 9)[:, None], POLICY

    for _ in range(100):
        chunk = guided(constant, NOISE, tail, mask)
        tail = chunk

    np.testing.assert_allclose(tail, POLICY, atol=1e-12)

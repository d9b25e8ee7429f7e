# SPDX-License-Identifier: Apache-2.0
from typing import Any

from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.rotary_table import RotaryTable
import pytest
import torch
from torch import Tensor

from tests.fakes.biased_models import make_biased


def rotary_of(name: str) -> Any:
    modules = make_biased(name).model.modules()
    return next(part for part in modules if hasattr(part, 'rotary_emb')).rotary_emb


def table_of(name: str) -> RotaryTable:
    return RotaryTable(rotary_of(name), None, torch.float32)


def drawn(*shape: int, high: int = 600) -> Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(0))


def test_scaled_frequencies_and_the_attention_factor_are_the_models() -> None:
    """The rows of YaRN are its own cos and sin, at positions far apart too."""
    spots = drawn(1, 20, high=3000)
    cos, sin = rotary_of('qwen2-yarn')(torch.empty(0), spots)
    rows = table_of('qwen2-yarn').rows(spots)
    assert torch.equal(rows, torch.cat([cos[0, :, :8], sin[0, :, :8]], 1))
    assert float(rows.square().sum(1).max()) > 8.1  # the factor: cos^2 + sin^2 is more than 1


def test_every_frequency_follows_its_axis() -> None:
    """With M-RoPE sections of 2, 3 and 3 frequencies turn by time, height and width."""
    table, spots = table_of('qwen'), drawn(3, 40)
    rows, single = table.rows(spots), [table.rows(axis[None]) for axis in spots]
    for first, last, axis in ((0, 2, 0), (2, 5, 1), (5, 8, 2)):
        for start in (0, 8):
            part = slice(start + first, start + last)
            assert torch.equal(rows[:, part], single[axis][:, part])


@pytest.mark.parametrize('axes', [1, 3])
@pytest.mark.parametrize('slots', [500, 20])
def test_products_are_those_of_the_rows(axes: int, slots: int) -> None:
    """Picked products and gathered rows, of one axis and of three, give the same numbers."""
    table, spots = table_of('qwen'), drawn(axes, 2, slots)
    factors = torch.randn(2, 5, table.width, generator=torch.Generator().manual_seed(1))
    rows = torch.stack([table.rows(spots[:, head]) for head in range(2)])
    assert torch.allclose(table.dots(factors, spots), factors @ rows.mT, atol=1e-5)


@pytest.mark.parametrize('spot', [-1, 1 << 22])
def test_no_table_holds_such_a_position(spot: int) -> None:
    """A position below zero or beyond all memory is an error that names it."""
    with pytest.raises(CacheError, match=str(spot)):
        table_of('qwen2').rows(torch.tensor([[spot]]))


def test_unknown_pairs_are_refused() -> None:
    """A model that turns channels otherwise is not silently misread."""
    def rotate(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        return query, key.flip(-1) * cos

    with pytest.raises(CacheError, match='pairs'):
        RotaryTable(rotary_of('qwen2'), rotate, torch.float32)

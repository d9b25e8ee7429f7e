# SPDX-License-Identifier: Apache-2.0
from cloud_backbone.model.configuration import BIN
from cloud_backbone.model.dense_head import Cells, CHANNELS, pick_candidates, split_channels
import torch

SIDE = 32


def empty_cells() -> Cells:
    raw = torch.zeros(1, 2, SIDE, SIDE, CHANNELS)
    raw[..., 0] = -9.0
    return split_channels(raw)


def plant(cells: Cells, slot: int, row: int, column: int, kind: int, presence: float) -> None:
    cells.presence[0, slot, row, column] = presence
    cells.kind[0, slot, row, column, kind] = 9.0
    cells.offset[0, slot, row, column] = 0.5


def test_a_thing_and_the_bin_around_it_are_both_found() -> None:
    """One cell can hold a bin and a thing in it."""
    cells = empty_cells()
    plant(cells, 0, 10, 20, kind=0, presence=5.0)
    plant(cells, 1, 10, 20, kind=BIN, presence=4.0)
    found = pick_candidates(cells, 2)
    assert found.is_bin[0].tolist() == [False, True]
    assert torch.allclose(found.point[0], torch.tensor([20.5, 10.5]) / SIDE)


def test_second_readings_of_a_thing_come_last() -> None:
    """A neighbouring cell with the same name yields to a less likely other thing."""
    cells = empty_cells()
    plant(cells, 0, 10, 20, kind=0, presence=5.0)
    plant(cells, 0, 10, 21, kind=0, presence=4.0)
    plant(cells, 0, 25, 5, kind=2, presence=1.0)
    found = pick_candidates(cells, 2)
    assert found.reading.kind.argmax(-1)[0].tolist() == [0, 2]


def test_cells_point_into_the_fine_map() -> None:
    """The index of a candidate is its column in the map of half the side."""
    cells = empty_cells()
    plant(cells, 0, 11, 21, kind=1, presence=5.0)
    assert pick_candidates(cells, 1).cell.item() == 5 * (SIDE // 2) + 10

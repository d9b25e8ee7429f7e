# SPDX-License-Identifier: Apache-2.0
from cloud_backbone.model.position_code import coordinate_code, grid_code, point_code
import torch


def test_nearer_places_have_nearer_codes() -> None:
    """The code of a place is most like itself, then like its neighbours."""
    place = torch.linspace(0.3, 0.35, 6)
    likeness = coordinate_code(place, 64) @ coordinate_code(place[:1], 64)[0]
    assert torch.equal(likeness.argsort(descending=True), torch.arange(6))


def test_a_grid_is_read_row_by_row() -> None:
    """The second cell of a grid lies to the right of the first."""
    wanted = point_code(torch.tensor([0.75, 0.25]), 32)
    assert torch.allclose(grid_code(2, 32)[1], wanted)

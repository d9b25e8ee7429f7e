# SPDX-License-Identifier: Apache-2.0

from cloud_backbone.kv_cache.oaken_spill import fit
import torch
from torch import Tensor

INNER_EDGE, INNER_DEEP, MIDDLE, OUTER_EDGE, OUTER_FAR = -0.01, -0.2, 0.5, 1.01, 9.0


def kept(depth: Tensor, room: int, x: Tensor | None = None) -> list[bool]:
    """Fit one block of (slots, head_dim); return what stays, flat."""
    given = torch.arange(depth.numel()).view_as(depth).float() if x is None else x
    wanted = (depth < 0) | (depth > 1)
    chosen = fit(wanted[None, None], depth[None, None], room, given[None, None])
    return chosen.flatten().tolist()


def test_what_costs_least_goes_first() -> None:
    """Inner elements near the middle group, then deep ones, then outer ones near it."""
    depth = torch.tensor([[OUTER_EDGE, INNER_EDGE, MIDDLE], [INNER_DEEP, OUTER_FAR, MIDDLE]])
    order = [4, 0, 3, 1]
    for room in range(6):
        assert [i for i, stays in enumerate(kept(depth, room)) if stays] == sorted(order[:room])


def test_each_block_has_its_own_room() -> None:
    """A block that is too full does not touch another one."""
    depth = torch.full((2, 2, 4, 8), OUTER_EDGE)
    depth[1, 1, 1:] = MIDDLE
    room = torch.tensor([[0, 32], [7, 8]])
    stays = fit((depth > 1), depth, room, torch.randn(2, 2, 4, 8))
    assert stays.flatten(2).sum(-1).tolist() == [[0, 32], [7, 8]]


def test_copies_at_the_end_of_a_block_yield_when_it_is_too_full() -> None:
    """Only the run at the end, only when there is too little room."""
    depth = torch.full((4, 2), OUTER_FAR)
    x = torch.tensor([[1.0, 2], [1, 2], [3, 4], [3, 4]])
    assert kept(depth, 8, x) == [True] * 8
    assert kept(depth, 6, x) == [True] * 6 + [False] * 2
    assert kept(depth, 7, x) == [True] * 6 + [False] * 2


def test_equal_costs_are_broken_by_place() -> None:
    """The result is the same each time: earlier elements stay."""
    assert kept(torch.full((2, 2), OUTER_FAR), 3) == [True, True, True, False]

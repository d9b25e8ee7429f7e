# SPDX-License-Identifier: Apache-2.0
from cloud_backbone.kv_cache.rope_positions import RopePositions
import pytest
import torch
from torch import Tensor


def image(before: int = 10, rows: int = 6, columns: int = 8, after: int = 20) -> Tensor:
    """Return M-RoPE positions (3, tokens): text, an image, text."""
    text = torch.arange(before).expand(3, -1)
    row = torch.arange(rows).repeat_interleave(columns)
    patches = torch.stack([torch.zeros_like(row), row, torch.arange(columns).repeat(rows)])
    behind = torch.arange(after).expand(3, -1) + max(rows, columns)
    return torch.cat([text, patches + before, behind + before], 1)


def everything(rope: RopePositions, tokens: int) -> Tensor:
    return rope.of(torch.arange(tokens))


@pytest.mark.parametrize('chunk', [1, 7, 78])
def test_positions_come_back_however_they_are_cut(chunk: int) -> None:
    """Token by token, in chunks and at once the same positions are known, layer after layer."""
    spots, rope = image(), RopePositions()
    for first in range(0, spots.shape[1], chunk):
        for _ in range(2):
            rope.extend(first, spots[:, first : first + chunk])
    assert torch.equal(everything(rope, spots.shape[1]), spots)


def test_random_positions_come_back() -> None:
    """Nothing is assumed of positions that a caller chose, be they far apart."""
    spots = torch.randint(0, 1 << 20, (1, 50), generator=torch.Generator().manual_seed(0))
    rope = RopePositions()
    rope.extend(3, spots)
    known = everything(rope, 53)
    assert torch.equal(known[:, 3:], spots) and torch.equal(known[0, :3], torch.arange(3))


def test_text_costs_nothing_and_an_image_little() -> None:
    """Logical positions are not stored; an image takes at most two runs a row, its end one."""
    rope = RopePositions()
    rope.extend(0, torch.arange(100).expand(3, -1))
    rope.extend(100, torch.arange(100, 101).expand(3, -1))
    assert rope.plain and rope.nbytes() == 0
    rope = RopePositions()
    rope.extend(0, image(rows=6))
    size = rope.nbytes()
    rope.extend(78, torch.arange(38, 40).expand(3, -1))
    assert 0 < size == rope.nbytes() <= (2 * 6 + 1) * (4 + 3 * 4 + 3)


def test_a_cut_forgets_what_is_behind_it() -> None:
    """After a cut other tokens may follow; a fork knows nothing of them."""
    spots, rope = image(), RopePositions()
    rope.extend(0, spots)
    twin = rope.fork()
    rope.cut(30)
    rope.extend(30, torch.arange(500, 505).expand(3, -1))
    assert torch.equal(everything(rope, 30), spots[:, :30])
    assert everything(rope, 35)[:, 30:].tolist() == [list(range(500, 505))] * 3
    assert torch.equal(everything(twin, spots.shape[1]), spots)
    rope.cut(0)
    assert rope.plain

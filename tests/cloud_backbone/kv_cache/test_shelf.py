# SPDX-License-Identifier: Apache-2.0
"""Promises of the shelves: slots stay with their positions and scores, pages with their owner."""

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.columns import Columns
from cloud_backbone.kv_cache.errors import PoolFullError
from cloud_backbone.kv_cache.open_shelf import OpenShelf
from cloud_backbone.kv_cache.raw import RawCodec
from cloud_backbone.kv_cache.shelf import Shelf
import pytest
import torch
from torch import Tensor

HEADS, WIDTH, SLOTS = 2, 16, 8
PAGE = SLOTS * WIDTH * 4
COLUMNS = Columns(HEADS, {'mean': torch.float32})


def made(kind: type[Shelf] = Shelf, capacity: int = 1 << 20) -> Shelf:
    """Return an empty shelf of raw single precision."""
    return kind(BlockPool(capacity), RawCodec(WIDTH, torch.float32, SLOTS), HEADS, COLUMNS)


def opened() -> OpenShelf:
    """Return an empty open shelf."""
    shelf = made(OpenShelf)
    assert isinstance(shelf, OpenShelf)
    return shelf


def states(tokens: int, first: int = 0) -> tuple[Tensor, Tensor]:
    """Return keys and values that tell their token: its number, and minus its number."""
    numbers = torch.arange(first, first + tokens, dtype=torch.float32)
    key = numbers[None, :, None].expand(HEADS, -1, WIDTH).contiguous()
    return key, -key


def append(shelf: OpenShelf, tokens: int, first: int = 0) -> None:
    """Append tokens whose position is their number and whose score is half of it."""
    key, value = states(tokens, first)
    positions = torch.arange(first, first + tokens)
    mean = (positions / 2).float().expand(HEADS, -1).contiguous()
    shelf.append(key, value, positions, {'mean': mean})


def check(shelf: Shelf, *wanted: list[int]) -> None:
    """Each head holds these positions, each with its own key, value and score."""
    keys, values = shelf.raw()
    for head, positions in enumerate(wanted):
        alive = shelf.alive[head]
        held = shelf.positions[head][alive]
        assert sorted(held.tolist()) == positions
        torch.testing.assert_close(keys[head][alive], held[:, None].float().expand(-1, WIDTH))
        torch.testing.assert_close(values[head][alive], -held[:, None].float().expand(-1, WIDTH))
        torch.testing.assert_close(shelf.columns['mean'][head][alive], held / 2)


def filled(blocks: int = 3) -> Shelf:
    """Return a shelf of whole blocks of tokens 0, 1, ..."""
    shelf = made()
    shelf.extend(blocks)
    key, value = states(blocks * SLOTS)
    positions = torch.arange(blocks * SLOTS).expand(HEADS, -1)
    shelf.fill(0, key, value, positions, {'mean': positions / 2})
    return shelf


def test_kept_blocks_keep_their_content_and_the_others_are_free() -> None:
    """Heads may keep different blocks; pages of the rest return at once."""
    shelf = filled()
    shelf.keep(torch.tensor([[0, 2], [1, 2]]))
    check(shelf, [*range(8), *range(16, 24)], [*range(8, 24)])
    assert shelf.pool.used_bytes == 2 * HEADS * 2 * PAGE
    shelf.clear()
    assert shelf.pool.used_bytes == 0


def test_single_slots_are_written_into_holes() -> None:
    """Tokens go to the masked slots of each head in order; the others keep their bits."""
    shelf = filled(1)
    doomed = torch.zeros(HEADS, SLOTS, dtype=torch.bool)
    doomed[0, [1, 5]], doomed[1, [0, 7]] = True, True
    shelf.kill(doomed)
    check(shelf, [0, 2, 3, 4, 6, 7], [1, 2, 3, 4, 5, 6])
    key, value = states(2, 30)
    positions = torch.tensor([30, 31]).expand(HEADS, -1)
    shelf.write(doomed, key, value, positions, {'mean': positions / 2})
    check(shelf, [0, 2, 3, 4, 6, 7, 30, 31], [1, 2, 3, 4, 5, 6, 30, 31])
    assert not shelf.has_dead


def test_shelf_that_finds_no_page_is_unchanged() -> None:
    """Keys' pages are given back where the values' do not fit."""
    shelf = made(capacity=HEADS * PAGE * 3)
    with pytest.raises(PoolFullError):
        shelf.extend(2)
    assert (shelf.blocks, shelf.slots, shelf.pool.used_bytes) == (0, 0, 0)
    shelf.extend(1)
    assert shelf.blocks == 1


def test_fork_copies_what_it_writes() -> None:
    """Neither side sees what the other writes; each page is given back by both."""
    shelf = filled(2)
    twin = shelf.fork()
    doomed = torch.zeros(HEADS, 2 * SLOTS, dtype=torch.bool)
    doomed[:, 3] = True
    twin.kill(doomed)
    key, value = states(1, 99)
    positions = torch.full((HEADS, 1), 99)
    twin.write(doomed, key, value, positions, {'mean': positions / 2})
    rest = [0, 1, 2, *range(4, 16)]
    check(shelf, [*range(16)], [*range(16)])
    check(twin, [*rest, 99], [*rest, 99])
    shelf.clear()
    check(twin, [*rest, 99], [*rest, 99])
    twin.clear()
    assert twin.pool.used_bytes == 0


def test_tokens_are_appended_behind_each_other() -> None:
    """In order, over block borders, with no more blocks than needed."""
    shelf = opened()
    for first, tokens in ((0, 5), (5, 1), (6, 11)):
        append(shelf, tokens, first)
    check(shelf, [*range(17)], [*range(17)])
    assert (shelf.tail, shelf.blocks) == (17, 3)
    key, value = shelf.in_order()
    assert torch.equal(key, states(17)[0])
    assert torch.equal(value, states(17)[1])


def test_new_tokens_take_the_place_of_dropped_ones() -> None:
    """Holes are filled before a block is added, each head its own."""
    shelf = opened()
    append(shelf, 8)
    shelf.release(torch.tensor([[1, 4], [0, 7]]))
    check(shelf, [0, 2, 3, 5, 6, 7], [1, 2, 3, 4, 5, 6])
    append(shelf, 2, 20)
    check(shelf, [0, 2, 3, 5, 6, 7, 20, 21], [1, 2, 3, 4, 5, 6, 20, 21])
    assert shelf.blocks == 1
    append(shelf, 3, 30)
    assert shelf.blocks == 2
    check(shelf, [0, 2, 3, 5, 6, 7, 20, 21, 30, 31, 32], [1, 2, 3, 4, 5, 6, 20, 21, 30, 31, 32])


def test_packing_moves_slots_together() -> None:
    """What is kept stands without gaps, in its order; free blocks go back."""
    shelf = opened()
    append(shelf, 20)
    shelf.pack(torch.tensor([[1, 2, 19], [0, 10, 18]]))
    check(shelf, [1, 2, 19], [0, 10, 18])
    assert (shelf.tail, shelf.blocks, shelf.has_dead) == (3, 1, False)
    append(shelf, 2, 20)
    check(shelf, [1, 2, 19, 20, 21], [0, 10, 18, 20, 21])


def test_packing_with_dead_slots_keeps_them_dead() -> None:
    """Where one head holds less than the other, attention must still look out."""
    shelf = opened()
    append(shelf, 8)
    shelf.kill(torch.tensor([[False] * 8, [False] * 5 + [True] * 3]))
    shelf.pack(torch.tensor([[4, 5, 6, 7], [2, 3, 4, 5]]))
    check(shelf, [4, 5, 6, 7], [2, 3, 4])
    assert shelf.has_dead


def test_last_tokens_can_be_taken_back() -> None:
    """The tail moves back to the last token that is left in any head."""
    shelf = opened()
    append(shelf, 12)
    shelf.drop_last(9)
    check(shelf, [*range(9)], [*range(9)])
    assert (shelf.tail, shelf.has_dead) == (9, False)
    append(shelf, 4, 9)
    check(shelf, [*range(13)], [*range(13)])


def test_bytes_of_a_block_are_those_that_it_adds() -> None:
    """The price by which budgets are shared is what a further block really takes."""
    shelf = made()
    shelf.extend(1)
    before = shelf.nbytes()
    shelf.extend(1)
    assert shelf.nbytes() - before == shelf.block_bytes

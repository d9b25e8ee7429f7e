# SPDX-License-Identifier: Apache-2.0

from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.oaken_page import OakenPage, SlotCodes
import pytest
import torch
from torch import Tensor

HEADS, BLOCKS = 2, 3
SHAPES = [(16, 8), (32, 16), (64, 32), (80, 32), (128, 16), (192, 64)]


def random_codes(page: OakenPage, seed: int = 0) -> SlotCodes:
    """Draw codes; one page has no sparse element, one is full to the last byte."""
    generator = torch.Generator().manual_seed(seed)
    shape = (HEADS, BLOCKS, page.slots, page.head_dim)

    def draw(low: int, high: int, *size: int) -> Tensor:
        return torch.randint(low, high, size, generator=generator, dtype=torch.uint8)

    order = torch.rand(HEADS, BLOCKS, page.slots * page.head_dim, generator=generator)
    rank = order.argsort(-1).argsort(-1).view(shape)
    fill = torch.tensor([[0, page.capacity, 5], [page.capacity // 2, 1, 2]])
    mark = draw(1, 5, *shape) * (rank < fill[..., None, None])
    return SlotCodes(draw(0, 16, *shape), mark, draw(0, 256, *shape[:3], 2))


@pytest.mark.parametrize(('head_dim', 'slots'), SHAPES)
def test_every_code_comes_back_exactly(head_dim: int, slots: int) -> None:
    """Packing loses nothing, in empty, half full and full pages."""
    page = OakenPage(slots, head_dim)
    codes = random_codes(page)
    pages = page.pack(codes)
    assert pages.shape == (HEADS, BLOCKS, page.nbytes) and pages.dtype == torch.uint8
    for back, given in zip(page.unpack(pages), codes, strict=True):
        assert torch.equal(back, given)


@pytest.mark.parametrize(('head_dim', 'slots', 'chunks'), [(64, 32, 1), (80, 16, 2), (128, 8, 2)])
@pytest.mark.parametrize('share', [0.0, 0.11, 0.125, 0.15])
def test_page_size_is_the_formula(head_dim: int, slots: int, chunks: int, share: float) -> None:
    """Half a byte an element, scales, counts and room, rounded up to words."""
    page = OakenPage(slots, head_dim, share)
    exact = slots * (head_dim / 2 + 2 + chunks + head_dim * share)
    assert page.nbytes % 4 == 0 and 0 <= page.nbytes - exact < 4
    assert page.capacity >= slots * head_dim * share


def test_a_page_reads_byte_by_byte_as_documented() -> None:
    """A reader in another language finds each code where the module says it is."""
    page = OakenPage(8, 80)
    codes = random_codes(page)
    data = page.pack(codes)[1, 0].tolist()
    scales = 8 * 40
    counts, sparse = scales + 16, scales + 16 + 16
    for slot in range(8):
        nibble, mark = codes.nibble[1, 0, slot].tolist(), codes.mark[1, 0, slot].tolist()
        assert data[slot * 40:slot * 40 + 40] == [
            nibble[j] | nibble[j + 40] << 4 for j in range(40)
        ]
        assert data[scales + slot * 2:scales + slot * 2 + 2] == codes.scale[1, 0, slot].tolist()
        for chunk, channels in enumerate((range(64), range(64, 80))):
            expected = [c % 64 | mark[c] - 1 << 6 for c in channels if mark[c]]
            count = data[counts + slot * 2 + chunk]
            assert data[sparse:sparse + count] == expected
            sparse += count


def test_any_bytes_unpack_to_something_valid() -> None:
    """Pages never written, or of another codec, do not break a reader."""
    for head_dim in (16, 64, 80):
        page = OakenPage(32, head_dim)
        generator = torch.Generator().manual_seed(head_dim)
        pages = torch.randint(
            0, 256, (HEADS, BLOCKS, page.nbytes), generator=generator, dtype=torch.uint8
        )
        codes = page.unpack(pages)
        assert int(codes.nibble.max()) < 16 and int(codes.mark.max()) < 5
        assert bool((codes.mark.bool().flatten(2).sum(-1) <= page.capacity).all())


def test_a_channel_that_does_not_exist_stays_within_its_slot() -> None:
    """Six bits can name more channels than a small head has; the last one stands for them."""
    page = OakenPage(8, 16)
    pages = torch.zeros(1, 1, page.nbytes, dtype=torch.uint8)
    pages[..., 8 * 8 + 8 * 2 + 7], pages[..., -page.capacity] = 1, 63
    marked = page.unpack(pages).mark.nonzero().tolist()
    assert marked == [[0, 0, 7, 15]]


def test_impossible_pages_are_refused() -> None:
    """Sizes that do not pack into bytes, and shares that are none."""
    with pytest.raises(CacheError, match='head_dim 20'):
        OakenPage(32, 20)
    with pytest.raises(ValueError, match='0 to 1, not 1.5'):
        OakenPage(32, 64, 1.5)

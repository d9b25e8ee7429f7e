# SPDX-License-Identifier: Apache-2.0
from cloud_backbone.kv_cache.bit_packing import join_page, pack, page_part, unpack
import pytest
import torch


@pytest.mark.parametrize('bits', [2, 4])
def test_what_is_packed_comes_out_again(bits: int) -> None:
    """Codes of any leading shape survive, at bits / 8 bytes each."""
    codes = torch.randint(0, 1 << bits, (2, 3, 5, 48), dtype=torch.uint8)
    packed = pack(codes, bits)
    assert packed.shape == (2, 3, 5, 48 * bits // 8)
    assert torch.equal(unpack(packed, bits), codes)


def test_a_byte_holds_channels_a_plane_apart() -> None:
    """Byte j holds channels j + p * channels / P, the first in the lowest bits."""
    two = torch.tensor([1, 0, 2, 0, 3, 0, 1, 0], dtype=torch.uint8)
    assert pack(two, 2).tolist() == [1 | 2 << 2 | 3 << 4 | 1 << 6, 0]
    four = torch.tensor([9, 1, 6, 2], dtype=torch.uint8)
    assert pack(four, 4).tolist() == [9 | 6 << 4, 1 | 2 << 4]


def test_packing_leaves_the_codes_alone() -> None:
    """The codes given are not written to."""
    codes = torch.full((4,), 3, dtype=torch.uint8)
    pack(codes, 2)
    assert codes.tolist() == [3, 3, 3, 3]


def test_parts_of_a_page_are_found_again_in_a_larger_tensor() -> None:
    """A page may be a strided view; each part is read bit for bit."""
    codes = torch.randint(0, 256, (2, 3, 8, 5), dtype=torch.uint8)
    scale = torch.randn(2, 3, 4).half()
    wide = torch.zeros(2, 3, 51, dtype=torch.uint8)
    wide[..., 3:] = join_page(codes, scale)
    pages = wide[..., 3:]
    assert torch.equal(page_part(pages, 0, torch.uint8, (8, 5)), codes)
    assert torch.equal(page_part(pages, 40, torch.float16, (4,)), scale)

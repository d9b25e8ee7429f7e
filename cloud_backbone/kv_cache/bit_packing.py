# SPDX-License-Identifier: Apache-2.0
"""Small codes packed into bytes, and tensors laid end to end in a page. Knows no codec.

Packing is planar: with P codes a byte, byte j holds channels j + p * channels / P, plane p = 0 in
the lowest bits. A plane is then unpacked by one shift and one mask over contiguous bytes.
"""

from __future__ import annotations

import torch
from torch import Tensor


def pack(codes: Tensor, bits: int) -> Tensor:
    """Pack codes uint8 (..., channels) below 2**bits into uint8 (..., channels * bits / 8)."""
    planes = codes.unflatten(-1, (8 // bits, codes.shape[-1] * bits // 8))
    packed = planes[..., 0, :].clone()
    for plane in range(1, 8 // bits):
        packed |= planes[..., plane, :] << (plane * bits)
    return packed


def unpack(packed: Tensor, bits: int) -> Tensor:
    """Unpack uint8 (..., bytes) into codes uint8 (..., bytes * 8 / bits)."""
    mask = (1 << bits) - 1
    return torch.cat([(packed >> shift) & mask for shift in range(0, 8, bits)], dim=-1)


def join_page(*parts: Tensor) -> Tensor:
    """Lay parts (kv_heads, blocks, ...) end to end: uint8 (kv_heads, blocks, bytes)."""
    flat = [part.contiguous().flatten(2).view(torch.uint8) for part in parts]
    return flat[0] if len(flat) == 1 else torch.cat(flat, dim=-1)


def page_part(pages: Tensor, start: int, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    """Return the part at byte ``start`` of each page as dtype (kv_heads, blocks, *shape)."""
    count = 1
    for size in shape:
        count *= size
    raw = pages[..., start:start + count * dtype.itemsize].contiguous()
    return raw.view(dtype).view(*pages.shape[:2], *shape)

# SPDX-License-Identifier: Apache-2.0
"""KIVI: keys quantised by channel, values by slot.

Liu et al., "KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache", ICML 2024.

    scale = (max - min) / (2^b - 1)      code = round((x - min) / scale)      x' = code scale + min

Keys have outlier channels, so a group is one channel over the slots of a block; values have none,
so a group is a span of channels of one slot. A page:

    keys:    uint8 codes[slots, head_dim b / 8] | float16 scale[head_dim] | float16 min[head_dim]
    values:  uint8 codes[slots, head_dim b / 8] | float16 scale, then min, [slots, head_dim / span]

Changed: the minimum is rounded down to float16 and the scale measured from there, and codes are
chosen for what is stored, so nothing is clipped: keys with a large bias have float16 steps above
those of their codes. The recent, unquantised window is the caller's.
"""

from __future__ import annotations

import math

from cloud_backbone.kv_cache.bit_packing import join_page, pack, page_part, unpack
from cloud_backbone.kv_cache.codec import check_shape, Codec
from cloud_backbone.kv_cache.errors import CacheError
import torch
from torch import Tensor

WIDTHS = (2, 4)
SPAN = 32
LARGEST = torch.finfo(torch.float16).max


class KiviCodec:
    """Asymmetric codes of 2 or 4 bits, written a block at a time."""

    def __init__(self, head_dim: int, bits: int, slots: int = 32) -> None:
        check_shape(head_dim, slots)
        if bits not in WIDTHS:
            raise CacheError(f'codes of {bits} bits are not known; known are {WIDTHS}')
        self.head_dim, self.bits, self.slots, self.group = head_dim, bits, slots, slots
        self.layout = f'grouped{bits}'
        self.span = value_span(head_dim)
        self.code_bytes = slots * head_dim * bits // 8
        self.key_bytes = self.code_bytes + 2 * 2 * head_dim
        self.value_bytes = self.code_bytes + 2 * 2 * slots * (head_dim // self.span)

    def learn(self, queries: Tensor) -> None:
        """Ignore them."""

    def encode_key(self, key: Tensor) -> Tensor:
        return self._key_page(*quantize(self._blocks(key), self.bits, -2))

    def encode_value(self, value: Tensor) -> Tensor:
        spans = self._blocks(value).unflatten(-1, (self.head_dim // self.span, self.span))
        codes, scale, minimum = quantize(spans, self.bits, -1)
        return join_page(pack(codes.flatten(-2), self.bits), scale, minimum)

    def decode_key(self, pages: Tensor) -> Tensor:
        scale, minimum = self._bounds(pages, (1, self.head_dim))
        return restore(self._codes(pages), scale, minimum).flatten(1, 2)

    def decode_value(self, pages: Tensor) -> Tensor:
        scale, minimum = self._bounds(pages, (self.slots, self.head_dim // self.span, 1))
        spans = self._codes(pages).unflatten(-1, (self.head_dim // self.span, self.span))
        return restore(spans, scale, minimum).flatten(-2).flatten(1, 2)

    def write_key(self, pages: Tensor, mask: Tensor, key: Tensor) -> Tensor:
        """Refuse: one scale serves all slots of a block."""
        raise CacheError(f'{self.layout} pages are written {self.slots} slots at a time')

    def nbytes(self) -> int:
        """Nothing is learned."""
        return 0

    def learned_bytes(self, kv_heads: int) -> int:
        """Nothing is learned."""
        return 0

    def tensors(self) -> dict[str, Tensor]:
        """Nothing is learned."""
        return {}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Ignore it: nothing is learned."""

    def fork(self) -> Codec:
        """Return itself: there is nothing to tell apart."""
        return self

    def _blocks(self, values: Tensor) -> Tensor:
        """Return float32 (kv_heads, blocks, slots, head_dim)."""
        return values.float().unflatten(1, (values.shape[1] // self.slots, self.slots))

    def _key_page(self, codes: Tensor, scale: Tensor, minimum: Tensor) -> Tensor:
        return join_page(pack(codes, self.bits), scale, minimum)

    def _codes(self, pages: Tensor) -> Tensor:
        """Return codes uint8 (kv_heads, blocks, slots, head_dim)."""
        shape = (self.slots, self.head_dim * self.bits // 8)
        return unpack(page_part(pages, 0, torch.uint8, shape), self.bits)

    def _bounds(self, pages: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Return the stored float16 scale and minimum, each (kv_heads, blocks, *shape)."""
        start = self.code_bytes
        minimum_start = start + 2 * math.prod(shape)
        return (
            page_part(pages, start, torch.float16, shape),
            page_part(pages, minimum_start, torch.float16, shape),
        )

    write_value = write_key


def value_span(head_dim: int) -> int:
    """Return how many channels of a value share a scale: 32, or what divides the head evenly."""
    span = min(SPAN, head_dim)
    return span if head_dim % span == 0 else math.gcd(SPAN, head_dim)


def quantize(values: Tensor, bits: int, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return uint8 codes, and float16 scale and minimum with ``axis`` kept at size 1."""
    top = (1 << bits) - 1
    low, high = torch.aminmax(values, dim=axis, keepdim=True)
    minimum = round_down(low.clamp(-LARGEST, LARGEST))
    # From the minimum that is stored, so that the top code reaches the maximum.
    scale = ((high - minimum.float()) / top).clamp(0, LARGEST).half()
    # A zero scale decodes to the minimum whatever the code.
    divisor = torch.where(scale > 0, scale.float(), 1.0)
    codes = ((values - minimum.float()) / divisor).round().clamp(0, top)
    return codes.to(torch.uint8), scale, minimum


def round_down(values: Tensor) -> Tensor:
    """Return the next float16 not above; float16 steps of large keys exceed those of their codes.

    Below the smallest normal number it is the nearest.
    """
    nearest = values.half()
    below = (values - values.abs() * 2**-11).clamp(-LARGEST, LARGEST).half()
    return torch.where(nearest.float() > values, below, nearest)


def restore(codes: Tensor, scale: Tensor, minimum: Tensor) -> Tensor:
    """Return the float32 values that codes stand for."""
    return torch.addcmul(minimum.float(), codes.float(), scale.float())

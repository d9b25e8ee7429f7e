# SPDX-License-Identifier: Apache-2.0
"""One byte a number, one scale a slot: int8[slots, head_dim] | float16 scale[slots] is a page.

value = code * scale, scale = max |value| / 127 over the channels of the slot.
"""

from __future__ import annotations

from cloud_backbone.kv_cache.bit_packing import join_page, page_part
from cloud_backbone.kv_cache.codec import check_shape, Codec
import torch
from torch import Tensor

LEVELS = 127
LARGEST = torch.finfo(torch.float16).max


class Int8Codec:
    """Symmetric 8 bit codes per slot."""

    layout = 'int8'
    group = 1

    def __init__(self, head_dim: int, slots: int = 32) -> None:
        check_shape(head_dim, slots)
        self.head_dim, self.slots = head_dim, slots
        self.key_bytes = self.value_bytes = slots * (head_dim + 2)

    def learn(self, queries: Tensor) -> None:
        """Ignore them."""

    def encode_key(self, key: Tensor) -> Tensor:
        blocks = key.shape[1] // self.slots
        return join_page(*_quantize(key.unflatten(1, (blocks, self.slots))))

    def decode_key(self, pages: Tensor) -> Tensor:
        codes, scale = self._read(pages)
        return (codes.float() * scale.float()).flatten(1, 2)

    def write_key(self, pages: Tensor, mask: Tensor, key: Tensor) -> Tensor:
        pairs = zip(_quantize(key), self._read(pages), strict=True)
        return join_page(*(torch.where(mask[..., None], new, old) for new, old in pairs))

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

    def _read(self, pages: Tensor) -> tuple[Tensor, Tensor]:
        """Return codes (kv_heads, blocks, slots, head_dim) and scales (..., slots, 1)."""
        codes = page_part(pages, 0, torch.int8, (self.slots, self.head_dim))
        start = self.slots * self.head_dim
        return codes, page_part(pages, start, torch.float16, (self.slots, 1))

    encode_value, decode_value, write_value = encode_key, decode_key, write_key


def _quantize(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return int8 codes (..., head_dim) and float16 scales (..., 1) of values."""
    values = values.float()
    scale = (values.abs().amax(-1, keepdim=True) / LEVELS).clamp(max=LARGEST).half()
    # Divide by what is stored; a zero scale decodes to zero whatever the code.
    divisor = torch.where(scale > 0, scale.float(), 1.0)
    return (values / divisor).round().clamp(-LEVELS, LEVELS).to(torch.int8), scale

# SPDX-License-Identifier: Apache-2.0
"""The codec that changes nothing but the dtype: dtype[slots, head_dim] is a page.

The yardstick of the others: in float32 it loses nothing.
"""

from __future__ import annotations

from cloud_backbone.kv_cache.bit_packing import join_page, page_part
from cloud_backbone.kv_cache.codec import check_shape, Codec
from cloud_backbone.kv_cache.errors import CacheError
import torch
from torch import Tensor

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class RawCodec:
    """Keeps keys and values as they are."""

    layout = 'raw'
    group = 1

    def __init__(
        self, head_dim: int, dtype: torch.dtype = torch.float32, slots: int = 32
    ) -> None:
        check_shape(head_dim, slots)
        if dtype not in DTYPES:
            raise CacheError(f'raw pages cannot hold {dtype}; they can {DTYPES}')
        self.head_dim, self.dtype, self.slots = head_dim, dtype, slots
        self.key_bytes = self.value_bytes = slots * head_dim * dtype.itemsize

    def learn(self, queries: Tensor) -> None:
        """Ignore them."""

    def encode_key(self, key: Tensor) -> Tensor:
        blocks = key.shape[1] // self.slots
        return join_page(self.narrow(key).unflatten(1, (blocks, self.slots)))

    def decode_key(self, pages: Tensor) -> Tensor:
        return self._read(pages).flatten(1, 2).float()

    def write_key(self, pages: Tensor, mask: Tensor, key: Tensor) -> Tensor:
        return join_page(torch.where(mask[..., None], self.narrow(key), self._read(pages)))

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

    def narrow(self, values: Tensor) -> Tensor:
        """Cast; what is too large for the dtype becomes its largest number, not infinity."""
        if values.dtype == self.dtype:
            return values.contiguous()
        largest = torch.finfo(self.dtype).max
        return values.float().clamp(-largest, largest).to(self.dtype).contiguous()

    def _read(self, pages: Tensor) -> Tensor:
        return page_part(pages, 0, self.dtype, (self.slots, self.head_dim))

    encode_value, decode_value, write_value = encode_key, decode_key, write_key

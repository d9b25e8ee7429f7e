# SPDX-License-Identifier: Apache-2.0
"""How keys and values become bytes: the interface of every codec.

A codec serves one layer of one session. It turns a *block*, ``slots`` slots of one KV head, into
two *pages* of fixed size, one for the keys and one for the values. It knows neither where pages
live nor which slots are alive: dead slots hold copies of live ones when a block is encoded, and
garbage afterwards. Keys arrive with their rotary positions applied. Input is finite; finite input
never becomes NaN or infinity.

Axes: ``kv_heads``, ``blocks``, ``slots`` of a block, ``head_dim``. Pages are little endian.
"""

from __future__ import annotations

from typing import Protocol

from cloud_backbone.kv_cache.errors import CacheError
from torch import Tensor


class Codec(Protocol):
    """Turns the keys and values of one layer into pages and back."""

    @property
    def layout(self) -> str:
        """Name of the page format: raw, int8, grouped2, grouped4 or oaken."""

    @property
    def slots(self) -> int:
        """Slots of one block."""

    @property
    def group(self) -> int:
        """Slots that are written together: 1, or ``slots`` where a block is written whole."""

    @property
    def key_bytes(self) -> int:
        """Bytes of a page of keys, a multiple of 4."""

    @property
    def value_bytes(self) -> int:
        """Bytes of a page of values, a multiple of 4."""

    def learn(self, queries: Tensor) -> None:
        """Look at queries (kv_heads, rows, head_dim), rotated, before their keys are encoded.

        The rows hold the queries of all heads that share a KV head.
        """

    def encode_key(self, key: Tensor) -> Tensor:
        """Turn keys (kv_heads, blocks * slots, head_dim) into pages (kv_heads, blocks, bytes)."""

    def encode_value(self, value: Tensor) -> Tensor:
        """Turn values (kv_heads, blocks * slots, head_dim) into pages, as keys."""

    def decode_key(self, pages: Tensor) -> Tensor:
        """Turn pages back into float32 keys (kv_heads, blocks * slots, head_dim)."""

    def decode_value(self, pages: Tensor) -> Tensor:
        """Turn pages back into float32 values (kv_heads, blocks * slots, head_dim)."""

    def write_key(self, pages: Tensor, mask: Tensor, key: Tensor) -> Tensor:
        """Return the pages with the masked slots overwritten, the others bit for bit as before.

        Args:
            pages: (kv_heads, blocks, key_bytes).
            mask: bool (kv_heads, blocks, slots).
            key: (kv_heads, blocks, slots, head_dim); anything where the mask is False.

        Raises:
            CacheError: the codec writes whole blocks (``group`` is not 1).
        """

    def write_value(self, pages: Tensor, mask: Tensor, value: Tensor) -> Tensor:
        """Overwrite slots of pages of values, as for keys."""

    def nbytes(self) -> int:
        """Bytes of what the codec has learned for its layer and session; shared tables are 0."""

    def learned_bytes(self, kv_heads: int) -> int:
        """Bytes that ``nbytes`` comes to once the codec has learned, for a budget."""

    def tensors(self) -> dict[str, Tensor]:
        """Return what was learned, for a file; of shared tables only what tells them apart."""

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take back what ``tensors`` returned.

        Raises:
            CacheError: the tensors are of another layer, of other shared tables, or broken.
        """

    def fork(self) -> Codec:
        """Return a codec that has learned the same and learns on alone."""


def check_shape(head_dim: int, slots: int) -> None:
    """Refuse what no page format can hold.

    Raises:
        CacheError: not a multiple of what is packed into one byte or one page.
    """
    if head_dim < 8 or head_dim % 8:
        raise CacheError(f'head_dim {head_dim} cannot be packed; a multiple of 8 can')
    if slots < 8 or slots % 8:
        raise CacheError(f'blocks of {slots} slots cannot be packed; a multiple of 8 can')

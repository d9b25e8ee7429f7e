# SPDX-License-Identifier: Apache-2.0
"""Oaken: thresholds found offline part each slot into three groups; most elements take 4 bits.

Kim et al., "Oaken: Fast and Efficient LLM Serving with Online-Offline Hybrid KV Cache
Quantization", ISCA 2025 (arXiv:2503.18599). With thresholds To- <= Ti- <= Ti+ <= To+ at the
quantiles 2, 47, 53 and 98 %, an element x becomes a side (above or below c, the middle of Ti- and
Ti+) and a distance y that is encoded in equal cells, whose middle is what is decoded:

    outer    x < To- or x > To+      4 %   y = x - To+  or  To- - x     16 cells of the slot's peak
    middle   between               90 %   y = x - Ti+  or  Ti- - x      8 cells of the slot's peak
    inner    Ti- < x < Ti+           6 %   y = |x - c|                  16 cells of (Ti+ - Ti-) / 2

The side takes one bit: 4 bits in the middle group, 5 bits in the others ("group shift").

What differs from the paper and its published simulation, and why:

- Scales are of the slot itself. The simulation takes the extent of the outer and middle groups
  over the whole tensor, so that tokens to come change what is stored.
- The side is found by comparison with the thresholds; the sign of x says nothing where all
  thresholds lie on one side of 0 (keys with a bias).
- Side and distance replace minimum and maximum: one byte a slot and group (``oaken_scale``) in
  place of two float16. The inner group needs none: its extent is known.
- Cells are decoded to their middle, which makes the squared error of the middle group a fifth
  smaller than levels at 0 and at the peak would.
- Thresholds are of one KV head, for keys as they are cached (after the rotary embedding).
- A page has room for so many sparse elements; the rest spill (``oaken_spill``, ``oaken_page``).

At head_dim 64, 32 slots and room for 12.5 %: 4 + 1 + 0.25 (scales) + 0.125 (counts) = 5.375 bits
an element. Knows no model, session or pool.
"""

from __future__ import annotations

from copy import copy

from cloud_backbone.kv_cache.codec import Codec
from cloud_backbone.kv_cache.oaken_edges import OakenShares, OakenThresholds
from cloud_backbone.kv_cache.oaken_page import OakenPage
from cloud_backbone.kv_cache.oaken_side import OakenSide
from torch import Tensor


class OakenCodec:
    """Codec of one layer of one session.

    Without thresholds, those of the first keys and values that it encodes are taken, once: the
    fall-back where no calibration file is at hand. They belong to the session then.

    Args:
        head_dim: channels of a head, a multiple of 8.
        slots: of a block, a multiple of 8.
        thresholds: of this layer.
        shares: what the groups hold, where thresholds have to be found.
        room: sparse bytes for each element of a page.
    """

    layout = 'oaken'
    group = 1

    def __init__(
        self,
        head_dim: int,
        slots: int = 32,
        thresholds: OakenThresholds | None = None,
        *,
        shares: OakenShares | None = None,
        room: float = 0.125,
    ) -> None:
        page, shares = OakenPage(slots, head_dim, room), shares or OakenShares()
        self.head_dim, self.slots = head_dim, slots
        self.key_bytes = self.value_bytes = page.nbytes
        self.key = OakenSide(page, thresholds.key if thresholds else None, shares)
        self.value = OakenSide(page, thresholds.value if thresholds else None, shares)

    def learn(self, queries: Tensor) -> None:
        """Ignore them: the thresholds stay."""

    def encode_key(self, key: Tensor) -> Tensor:
        return self.key.encode(key)

    def encode_value(self, value: Tensor) -> Tensor:
        return self.value.encode(value)

    def decode_key(self, pages: Tensor) -> Tensor:
        return self.key.decode(pages)

    def decode_value(self, pages: Tensor) -> Tensor:
        return self.value.decode(pages)

    def write_key(self, pages: Tensor, mask: Tensor, key: Tensor) -> Tensor:
        return self.key.write(pages, mask, key)

    def write_value(self, pages: Tensor, mask: Tensor, value: Tensor) -> Tensor:
        return self.value.write(pages, mask, value)

    def nbytes(self) -> int:
        return self.key.nbytes() + self.value.nbytes()

    def learned_bytes(self, kv_heads: int) -> int:
        return self.key.learned_bytes(kv_heads) + self.value.learned_bytes(kv_heads)

    def tensors(self) -> dict[str, Tensor]:
        """Return thresholds and counts of keys and values."""
        named = {'key': self.key.tensors(), 'value': self.value.tensors()}
        return {f'{side}_{name}': tensor for side, part in named.items()
                for name, tensor in part.items()}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take back what ``tensors`` returned.

        Raises:
            CalibrationError: the pages were made with other thresholds.
        """
        for side, name in ((self.key, 'key'), (self.value, 'value')):
            side.load(tensors.get(f'{name}_edges'), tensors[f'{name}_counts'])

    def fork(self) -> Codec:
        """Return a codec of the same thresholds that counts its groups alone."""
        twin = copy(self)
        twin.key, twin.value = self.key.fork(), self.value.fork()
        return twin

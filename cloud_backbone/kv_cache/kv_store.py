# SPDX-License-Identifier: Apache-2.0
"""One layer of a batch as transformers sees it: logical lengths outside, rows of slots inside.

``update`` hands the new tokens on untouched and leaves a note for the attention function of
``hook``, which alone reads and fills the rows. Knows no policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
import inspect
from typing import Any, Protocol

from cloud_backbone.kv_cache.byte_budget import trim
from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.kv_session import KVSession
from torch import Tensor
from transformers.cache_utils import CacheLayerMixin, DynamicLayer

_REMOVES = 'tokens_to_remove' in inspect.signature(DynamicLayer.crop).parameters
"""Whether this transformers crops by what goes; older ones by what stays."""


class Batch(Protocol):
    """Whoever owns the sessions of a batch."""

    def sessions_of(self, batch: int) -> Sequence[KVSession]:
        """Return one session per batch row."""

    def abandon(self) -> None:
        """Give up the tokens of all rows after a failure in the middle of a forward."""


@dataclass(frozen=True)
class Note:
    """What ``update`` tells the attention function that follows it."""

    store: KVStore
    key: Tensor


NOTE: ContextVar[Note | None] = ContextVar('note', default=None)
"""Of the layer that is being computed in this thread."""


class KVStore(CacheLayerMixin):  # type: ignore[misc]
    """Cache layer of a batch.

    Args:
        layer: index of the layer.
        owner: has the session of each batch row.
    """

    is_sliding = False
    is_croppable = True
    is_compileable = False

    def __init__(self, layer: int, owner: Batch) -> None:
        super().__init__()
        self.layer = layer
        self.columns = 0
        """Tokens of the batch so far, padding included."""
        self.owner = owner
        self._batch = 0
        self.waiting = 0
        """Tokens handed on that attention has not taken in yet."""

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Remember type and size of the batch."""
        self.dtype, self.device = key_states.dtype, key_states.device
        self._batch = key_states.shape[0]
        self.is_initialized = True

    def go_on(self, batch: int, columns: int) -> None:
        """Follow rows that were filled or cropped elsewhere."""
        self._batch, self.columns = batch, columns

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Return the new keys and values (batch, kv_heads, tokens, head_dim) as they are."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self.waiting:
            raise CacheError(
                'the model does not attend through this cache: call attach(model) first'
            )
        self.owner.sessions_of(key_states.shape[0])
        self.waiting = key_states.shape[2]
        self._batch = key_states.shape[0]
        NOTE.set(Note(self, key_states))
        return key_states, value_states

    def sessions(self) -> Sequence[KVSession]:
        """Return the session of each batch row."""
        return self.owner.sessions_of(self._batch)

    def taken(self) -> None:
        """Count the tokens that attention has taken in."""
        self.columns += self.waiting
        self.waiting = 0

    def get_seq_length(self, *args: Any) -> int:
        """Return the logical length: every token that was ever appended."""
        return self.columns + self.waiting

    def get_mask_sizes(self, query_length: Any) -> tuple[int, int]:
        """Return the logical columns of a mask and where they begin."""
        tokens = query_length.shape[0] if isinstance(query_length, Tensor) else int(query_length)
        return self.columns + tokens, 0

    def get_max_length(self) -> int:
        """There is no maximum."""
        return -1

    def get_max_cache_shape(self) -> int:
        """There is no maximum, in the words of older versions."""
        return -1

    def reset(self) -> None:
        """Begin anew."""
        self.columns = self.waiting = 0

    def crop(self, count: int) -> None:
        """Shorten as DynamicLayer of this version of transformers does."""
        if _REMOVES and count > 0:
            raise ValueError(f'crop takes minus the tokens to remove, not {count}')
        gone = -count if count < 0 or _REMOVES else self.columns - count
        if gone <= 0 or not self.columns:
            return
        for session in self.sessions():
            row = session.rows[self.layer]
            row.crop(row.seen - gone)
            trim(row)
        self.columns = max(self.columns - gone, 0)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Leave it to the cache, which reorders whole sessions."""

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Leave it to the cache."""

    def batch_select_indices(self, indices: Tensor) -> None:
        """Leave it to the cache."""


def take_note(key: Tensor) -> KVStore | None:
    """Return the store that these very keys were handed on by, once."""
    note = NOTE.get()
    if note is None or note.key is not key:
        return None
    NOTE.set(None)
    return note.store



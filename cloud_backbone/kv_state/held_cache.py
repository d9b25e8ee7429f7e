# SPDX-License-Identifier: Apache-2.0
"""The cache of one sequence as a state sees it: a length, crops, copies and checkpoints.

Rows of the compressed cache can go back to any length; layers that keep a window only can go
back to where a checkpoint of them was taken. Knows no segments and no model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cloud_backbone.kv_cache import lifting
from cloud_backbone.kv_cache.compressed_cache import CompressedCache
from cloud_backbone.kv_cache.errors import PoolFullError
from cloud_backbone.kv_cache.key_rotation import KeyRotation
from cloud_backbone.kv_cache.kv_session import KVSession
from cloud_backbone.kv_cache.kv_store import KVStore
from cloud_backbone.kv_state.errors import UnsupportedModel
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer

Held = Mapping[int, tuple[Tensor, Tensor]]
"""Layer -> keys and values (kv_heads, tokens, head_dim)."""


@dataclass(frozen=True)
class Checkpoint:
    """The layers of the library as they were after some tokens."""

    tokens: int
    layers: tuple[tuple[Tensor | None, Tensor | None], ...]
    """Keys and values (1, kv_heads, kept, head_dim); the library never writes into them."""


class HeldCache:
    """A cache of one sequence.

    Args:
        cache: a compressed one, or one of the library's with plain and sliding layers.

    Raises:
        UnsupportedModel: some layers are of another kind.
    """

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._others: list[Any] = [one for one in cache.layers if not isinstance(one, KVStore)]
        for layer in self._others:
            if type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer):
                raise UnsupportedModel(
                    f'layers of kind {type(layer).__name__} cannot go back to earlier tokens'
                )
        self._checkpoints: dict[int, Checkpoint] = {}

    @property
    def session(self) -> KVSession | None:
        """The compressed rows; None for a cache of the library's."""
        return self.cache.begin() if isinstance(self.cache, CompressedCache) else None

    @property
    def slides(self) -> bool:
        """Whether some layers keep a window only."""
        return any(layer.is_sliding for layer in self._others)

    def __len__(self) -> int:
        """Count the tokens so far, dropped ones included."""
        if isinstance(self.cache, CompressedCache):
            self.cache.align()
        return int(self.cache.get_seq_length())

    def min_pos(self) -> int:
        """Return the length from which on every shorter one can be cropped to."""
        full = [layer for layer in self._others if layer.is_sliding
                and layer.cumulative_length >= layer.sliding_window]
        return len(self) if full else 0

    def reachable(self, tokens: int) -> int:
        """Return the greatest length up to ``tokens`` that can be cropped to; 0 always can."""
        if tokens >= self.min_pos():
            return min(tokens, len(self))
        return max((place for place in self._checkpoints if place <= tokens), default=0)

    def remember(self) -> None:
        """Take a checkpoint here, so that ``crop`` can come back; costs windows, not tokens."""
        if self.slides:
            self._checkpoints[len(self)] = self.checkpoint()

    def forget_others(self, places: set[int]) -> None:
        """Keep the checkpoints of these lengths alone."""
        self._checkpoints = {
            place: one for place, one in self._checkpoints.items() if place in places
        }

    def checkpoint(self) -> Checkpoint:
        """Return what the library's layers hold now."""
        return Checkpoint(
            len(self),
            tuple((layer.keys, layer.values) if layer.is_initialized else (None, None)
                  for layer in self._others),
        )

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """All checkpoints that were taken, the shortest first."""
        return tuple(self._checkpoints[place] for place in sorted(self._checkpoints))

    def load(
        self, session: KVSession | None, now: Checkpoint, earlier: Iterable[Checkpoint]
    ) -> None:
        """Go on with the rows, layers and checkpoints that another cache of the model had."""
        if isinstance(self.cache, CompressedCache):
            assert session is not None, 'a compressed cache needs its session'
            self.cache.begin().close()
            self.cache.sessions = [session]
        self._go_back(now)
        self._checkpoints = {one.tokens: one for one in earlier}

    def crop(self, tokens: int) -> None:
        """Forget all but the first ``tokens``, a length that is ``reachable``."""
        assert self.reachable(tokens) == tokens, f'{tokens} tokens cannot be cropped to'
        if tokens in self._checkpoints:
            self._go_back(self._checkpoints[tokens])
        else:
            gone = len(self) - tokens
            for layer in self._others:
                _shorten(layer, tokens, gone)
            self._crop_rows(tokens)
        self._checkpoints = {
            place: one for place, one in self._checkpoints.items() if place <= tokens
        }

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Take back the tokens that came in, if anything goes wrong on the way."""
        before = self.checkpoint()
        try:
            yield
        except BaseException:
            self._go_back(before)
            raise

    def fork(self) -> HeldCache:
        """Return a cache with the same content; pages are shared until one side writes."""
        twin_cache = self.cache.fork() if isinstance(self.cache, CompressedCache) else (
            type(self.cache)()
        )
        if not isinstance(twin_cache, CompressedCache):
            twin_cache.layers.extend(_copy(layer) for layer in self._others)
        twin = HeldCache(twin_cache)
        twin._checkpoints = dict(self._checkpoints)
        if isinstance(twin_cache, CompressedCache):
            for layer, (keys, values) in zip(
                twin._others, self.checkpoint().layers, strict=True
            ):
                _set(layer, keys, values, len(self))
        return twin

    def lift(self, first: int, end: int) -> Held:
        """Return copies of the tokens [first, end) of a cache that holds all of them."""
        lifted = dict[int, tuple[Tensor, Tensor]]()
        session = self.session
        if session is not None:
            lifted.update(lifting.lift(session, first, end))
        for index, layer in enumerate(self.cache.layers):
            if not isinstance(layer, KVStore):
                keys, values = layer.keys[0, :, first:end], layer.values[0, :, first:end]
                lifted[index] = keys.clone(), values.clone()
        return lifted

    def put(self, held: Held, distance: int, rotation: Callable[[int], KeyRotation]) -> None:
        """Append lifted tokens, their keys turned by ``distance`` positions; all or none.

        Raises:
            UnsupportedMove: keys of this model do not turn.
            PoolFullError: there is no page left.
        """
        session, layers = self.session, self.cache.layers
        rows = {index: one for index, one in held.items() if isinstance(layers[index], KVStore)}
        with self.all_or_nothing():
            if session is not None:
                lifting.put(session, rows, distance, rotation)
            for index, (key, value) in held.items():
                if index not in rows:
                    turned = rotation(index).turn(key, distance) if distance else key
                    layers[index].update(turned[None], value[None])
            if isinstance(self.cache, CompressedCache):
                self.cache.align()

    def put_or_leave(self, held: Held, rotation: Callable[[int], KeyRotation]) -> bool:
        """Append lifted tokens where they were; False, and none is there, if the pool is full."""
        try:
            self.put(held, 0, rotation)
        except PoolFullError:
            return False
        return True

    def commit(self) -> None:
        """Let the policy drop and encode what is due."""
        session = self.session
        if session is not None and not session.policy.lossless:
            session.commit()

    def nbytes(self) -> int:
        """Bytes of every tensor, checkpoints included [B]."""
        kept = {
            id(part): part.nbytes for one in (self.checkpoint(), *self._checkpoints.values())
            for pair in one.layers for part in pair if part is not None
        }
        session = self.session
        return sum(kept.values()) + (0 if session is None else session.nbytes())

    def close(self) -> None:
        """Give every page back; the cache begins anew with its next token."""
        if isinstance(self.cache, CompressedCache):
            session = self.cache.begin()
            session.close()
            self.cache.align()
        for layer in self._others:
            _set(layer, None, None, 0)
        self._checkpoints.clear()

    def _crop_rows(self, tokens: int) -> None:
        session = self.session
        if session is not None and len(session) > tokens:
            session.crop(tokens)
        if isinstance(self.cache, CompressedCache):
            self.cache.align()

    def _go_back(self, to: Checkpoint) -> None:
        for layer in self.cache.layers:
            if isinstance(layer, KVStore):
                layer.waiting = 0
        self._crop_rows(to.tokens)
        for layer, (keys, values) in zip(self._others, to.layers, strict=True):
            _set(layer, keys, values, to.tokens)


def _shorten(layer: Any, tokens: int, gone: int) -> None:
    """Drop the last tokens of a layer that has them all."""
    if gone > 0 and layer.is_initialized:
        _set(layer, layer.keys[..., :-gone, :], layer.values[..., :-gone, :], tokens)


def _set(layer: Any, keys: Tensor | None, values: Tensor | None, tokens: int) -> None:
    if keys is None or values is None:  # older versions of the library would zero them in place
        layer.keys = layer.values = None
        layer.is_initialized = False
    else:
        if not layer.is_initialized:
            layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
    if layer.is_sliding:
        layer.cumulative_length = tokens


def _copy(layer: Any) -> Any:
    twin = (type(layer)(sliding_window=layer.sliding_window) if layer.is_sliding
            else type(layer)())
    if layer.is_initialized:
        _set(twin, layer.keys, layer.values, layer.get_seq_length())
    return twin

# SPDX-License-Identifier: Apache-2.0
"""Memory of all caches: pages of fixed sizes out of one allowance of bytes.

Pages of one size lie in one arena, so that attention reads them by number without a copy. On the
CPU an arena is reserved address space: only pages that were written cost memory. A page may have
several owners (forks of a session); the last one gives it back. Knows bytes only; thread-safe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
import mmap
import sys
import threading

from cloud_backbone.kv_cache.errors import PoolFullError
import numpy as np
from numpy.typing import NDArray
import torch
from torch import Tensor

# Python before 3.13 does not name it.
_NORESERVE = getattr(mmap, 'MAP_NORESERVE', 0x4000 if sys.platform == 'linux' else 0)


@dataclass
class _Arena:
    """Pages of one size [B]."""

    memory: Tensor
    """Bytes (pages, page_bytes), uint8."""
    owners: NDArray[np.int32]
    """Owners of each page (pages,)."""
    free: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Pages given back, ascending."""
    touched: int = 0
    """Pages from here on were never used."""


class BlockPool:
    """Hands out pages and takes them back.

    Args:
        capacity_bytes: all pages together never exceed this [B].
        device: where the pages lie; other devices than the CPU reserve the capacity per page size.
    """

    def __init__(self, capacity_bytes: int, device: str | torch.device = 'cpu') -> None:
        if capacity_bytes <= 0:
            raise ValueError(f'a pool of {capacity_bytes} bytes holds nothing')
        self.capacity_bytes = capacity_bytes
        self._used = 0
        self._device = torch.device(device)
        self._arenas: dict[int, _Arena] = {}
        self._lock = threading.Lock()
        self._forgotten: deque[tuple[int, Tensor]] = deque()
        """Pages whose owner was collected; they are given back before anything else is done."""

    @property
    def used_bytes(self) -> int:
        """Bytes of all pages that somebody owns [B]."""
        with self._settled():
            return self._used

    @property
    def free_bytes(self) -> int:
        """Bytes that no page takes [B]."""
        return self.capacity_bytes - self.used_bytes

    def fits(self, session_bytes: int) -> int:
        """Say how many more sessions of so many bytes there is room for."""
        return self.free_bytes // max(session_bytes, 1)

    def arena(self, page_bytes: int) -> Tensor:
        """Return the bytes of all pages of one size (pages, page_bytes), uint8."""
        with self._settled():
            return self._arena(page_bytes).memory

    def take(self, page_bytes: int, count: int) -> Tensor:
        """Take pages, side by side where there is such a run.

        Returns:
            Page numbers (count,), int64.

        Raises:
            PoolFullError: so many bytes are not free; nothing is taken.
        """
        with self._settled():
            wanted = page_bytes * count
            free = self.capacity_bytes - self._used
            if wanted > free:
                raise PoolFullError(wanted, free, self.capacity_bytes)
            arena = self._arena(page_bytes)
            pages = _run(arena, count)
            arena.owners[pages] = 1
            self._used += wanted
            return torch.from_numpy(pages)

    def share(self, page_bytes: int, pages: Tensor) -> None:
        """Add one owner to pages."""
        if not pages.numel():
            return
        with self._settled():
            self._arenas[page_bytes].owners[pages.flatten().numpy()] += 1

    def is_shared(self, page_bytes: int, pages: Tensor) -> Tensor:
        """Say which pages have more than one owner, bool, shaped as the page numbers."""
        if not pages.numel():
            return torch.zeros_like(pages, dtype=torch.bool)
        with self._settled():
            return torch.from_numpy(self._arenas[page_bytes].owners[pages.numpy()] > 1)

    def give(self, page_bytes: int, pages: Tensor) -> None:
        """Take one owner from pages; those without any are free at once."""
        with self._settled():
            self._release(page_bytes, pages)

    def forget(self, page_bytes: int, pages: Tensor) -> None:
        """Give pages back from a finalizer, which may run while this very thread uses the pool."""
        self._forgotten.append((page_bytes, pages))

    @contextmanager
    def _settled(self) -> Iterator[None]:
        """Hold the lock, with nothing left to give back."""
        with self._lock:
            while self._forgotten:
                self._release(*self._forgotten.popleft())
            yield

    def _release(self, page_bytes: int, pages: Tensor) -> None:
        numbers = pages.flatten().numpy()
        if not len(numbers):
            return
        arena = self._arenas[page_bytes]
        assert (arena.owners[numbers] > 0).all(), 'a page is given back twice'
        arena.owners[numbers] -= 1
        freed = numbers[arena.owners[numbers] == 0]
        self._used -= len(freed) * page_bytes
        arena.free = np.sort(np.concatenate([arena.free, freed]))
        if len(arena.free) == arena.touched:  # nobody uses this size: forget its memory
            del self._arenas[page_bytes]

    def _arena(self, page_bytes: int) -> _Arena:
        if page_bytes not in self._arenas:
            pages = max(self.capacity_bytes // page_bytes, 1)
            memory = _reserve(pages * page_bytes, self._device).view(pages, page_bytes)
            self._arenas[page_bytes] = _Arena(memory, np.zeros(pages, np.int32))
        return self._arenas[page_bytes]


def _run(arena: _Arena, count: int) -> NDArray[np.int64]:
    """Remove pages from an arena: a free run, else untouched ones, else whatever is free."""
    free = arena.free
    if 0 < count <= len(free):
        runs = free[count - 1 :] - free[: len(free) - count + 1] == count - 1
        if runs.any():
            first = int(runs.argmax())
            arena.free = np.delete(free, slice(first, first + count))
            return free[first : first + count]
    untouched = min(count, len(arena.owners) - arena.touched)
    if untouched < count:
        untouched = max(count - len(free), 0)
    scattered, arena.free = np.split(free, [count - untouched])
    new = np.arange(arena.touched, arena.touched + untouched)
    arena.touched += untouched
    return np.concatenate([scattered, new])


def _reserve(size: int, device: torch.device) -> Tensor:
    """Return bytes that the CPU commits page by page when they are first written."""
    if device.type != 'cpu':
        return torch.empty(size, dtype=torch.uint8, device=device)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    return torch.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=torch.uint8)

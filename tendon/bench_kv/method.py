# SPDX-License-Identifier: Apache-2.0
"""What the bench asks of a method that keeps keys and values."""

from contextlib import AbstractContextManager
from typing import Any, Protocol

from tendon.bench_kv.recording import Recording


class Method(Protocol):
    """Fills a cache, and says how it is read and what it weighs."""

    @property
    def name(self) -> str:
        """How tables call it."""

    @property
    def maker(self) -> str:
        """Whose it is: tendon, transformers or kvpress."""

    @property
    def takes_share(self) -> bool:
        """Whether it can be told how many bytes it may keep."""

    def prefill(self, model: Any, recording: Recording, share: float | None) -> Any:
        """Return a cache that holds the recorded context.

        Args:
            model: the model that was recorded.
            recording: the context.
            share: what the cache may weigh, of the bytes of all keys and values at 16 bits; None:
                whatever the method takes.
        """

    def reading(self, model: Any, cache: Any) -> AbstractContextManager[None]:
        """Within it, the model reads and writes this cache."""

    def fork(self, cache: Any) -> Any:
        """Return a copy that goes its own way."""

    def nbytes(self, cache: Any) -> int:
        """Return the bytes of every tensor that the cache holds [B]."""

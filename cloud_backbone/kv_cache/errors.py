# SPDX-License-Identifier: Apache-2.0
"""Errors of the cache, one class per reaction of the caller.

CacheError
+-- PolicyError        ask for a policy that exists
+-- BudgetError        give more bytes
+-- PoolFullError      close a session, or wait for one to close
+-- CalibrationError   calibrate for this very model
+-- NonFiniteError     the model computed NaN or infinity; the session's cache is not changed
+-- EvictedError       what was asked for is no longer held; compute the tokens anew
+-- MaskError          the attention mask hides tokens in a way that the cache cannot follow
"""

from __future__ import annotations

from collections.abc import Iterable

from cloud_backbone.errors import BackboneError


class CacheError(BackboneError):
    """Any error of this package."""


class PolicyError(CacheError):
    """No such policy."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f'no cache policy {name!r}; known are {", ".join(known)}')


class BudgetError(CacheError):
    """The budget is too small to hold anything."""

    def __init__(self, policy: str, given: int, least: int) -> None:
        super().__init__(
            f'the budget of {given} bytes is too small for policy {policy}, '
            f'which needs at least {least} bytes'
        )
        self.given, self.least = given, least


class PoolFullError(CacheError):
    """The pool has no page left."""

    def __init__(self, wanted: int, free: int, capacity: int) -> None:
        super().__init__(
            f"{wanted} bytes of cache are wanted, {free} of the pool's {capacity} are free"
        )


class CalibrationError(CacheError):
    """A calibration file is missing, broken, or of another model."""


class NonFiniteError(CacheError):
    """Keys or values hold NaN or infinity."""

    def __init__(self, layer: int) -> None:
        super().__init__(f'keys or values of layer {layer} hold NaN or infinity')


class EvictedError(CacheError):
    """Tokens are asked for that the cache no longer holds."""


class MaskError(CacheError):
    """A mask hides tokens that the cache counts as seen."""

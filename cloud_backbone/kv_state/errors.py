# SPDX-License-Identifier: Apache-2.0
"""Errors of a session's state, one class per reaction of the caller.

StateError
+-- LayoutError            name a segment that is there, in an order that is allowed
+-- StaleMark              take a new mark: what is before this one has changed
+-- LostHistory            crop to ``min_pos`` or further, or compute the tokens anew
+-- MissingImage           send the image again
+-- UnsupportedModel       this model's cache cannot be edited; open a new session each turn
+-- UnsupportedMove        do the same edit with mode RECOMPUTE
+-- ApproxRefused          do the same edit with mode RECOMPUTE, or calibrate the edit
+-- FingerprintMismatch    restore with policy REPREFILL, or serve what the snapshot was made with
+-- Corrupt                restore an older snapshot, or open the session anew
+-- StepConflict           give a new step another id
+-- StepGap                send the steps from ``expected`` on
+-- StaleEpoch             take up the session again: somebody else has
+-- StoreError             look at the disk or the shared store; the state itself goes on
+-- NotStored              open the session anew
+-- KeysLost               restore with policy REPREFILL
"""

from __future__ import annotations

from collections.abc import Iterable

from cloud_backbone.errors import BackboneError


class StateError(BackboneError):
    """Any error of this package; the state is as it was before the call."""


class LayoutError(StateError):
    """Segments cannot be named or ordered like this."""

    @classmethod
    def unknown(cls, name: str, known: Iterable[str]) -> LayoutError:
        """Return the error for a name that is not there."""
        return cls(f'no segment {name!r}; there are {", ".join(known) or "none"}')


class StaleMark(StateError):
    """The tokens before a mark are not those that were there when it was taken."""

    def __init__(self, tokens: int, held: int) -> None:
        super().__init__(
            f'the mark is after {tokens} tokens that have changed since; the state holds {held} '
            'tokens: take a new mark'
        )


class LostHistory(StateError):
    """The cache cannot go back as far as asked."""

    def __init__(self, wanted: int, min_pos: int, why: str) -> None:
        super().__init__(
            f'cannot crop to {wanted} tokens, {why}: crop to {min_pos} or more, or call '
            'rehydrate() to compute the tokens anew'
        )
        self.wanted, self.min_pos = wanted, min_pos


class MissingImage(StateError):
    """A segment has to be computed anew, and the pixels of its image are not at hand."""

    def __init__(self, name: str, sha256: str) -> None:
        super().__init__(
            f'segment {name!r} needs its image {sha256[:12]} to be computed anew: send it again'
        )
        self.sha256 = sha256


class UnsupportedModel(StateError):
    """The model's cache cannot hold segments."""


class UnsupportedMove(StateError):
    """Keys cannot be taken to other positions."""

    def __init__(self, reason: str) -> None:
        super().__init__(f'{reason}: use mode RECOMPUTE, which computes the tokens anew')
        self.reason = reason


class ApproxRefused(StateError):
    """An approximate edit is not known to be good enough with this model."""

    def __init__(self, kind: str, measured: float | None, limit: float) -> None:
        found = 'was never measured' if measured is None else f'was measured as {measured:.3g}'
        super().__init__(
            f'edits of kind {kind!r} are refused: their effect {found} with this model, allowed '
            f'is {limit:.3g}: use mode RECOMPUTE, or calibrate'
        )
        self.kind, self.measured, self.limit = kind, measured, limit


class FingerprintMismatch(StateError):
    """A snapshot was made with something else than what is served."""

    def __init__(self, field: str, want: str, got: str) -> None:
        super().__init__(
            f'the snapshot was made with {field} {want}, served is {field} {got}: restore with '
            'policy REPREFILL to compute its tokens anew'
        )
        self.field, self.want, self.got = field, want, got


class Corrupt(StateError):
    """Stored bytes are not those that were written."""

    def __init__(self, chunk: str, why: str) -> None:
        super().__init__(f'{chunk} is damaged: {why}')
        self.chunk = chunk


class StepConflict(StateError):
    """A step id came again with another content."""

    def __init__(self, step_id: int) -> None:
        super().__init__(
            f'step {step_id} was taken before, with another content or long ago: give a new step '
            'another id'
        )
        self.step_id = step_id


class StepGap(StateError):
    """Steps are missing before this one."""

    def __init__(self, step_id: int, expected: int) -> None:
        super().__init__(f'step {step_id} came, {expected} is next: send the steps from there on')
        self.step_id, self.expected = step_id, expected


class StaleEpoch(StateError):
    """The caller's hold on the session has been taken over."""

    def __init__(self, given: int, current: int) -> None:
        super().__init__(
            f'epoch {given} is over, the session is in epoch {current}: take it up again'
        )
        self.given, self.current = given, current


class StoreError(StateError):
    """A snapshot store did not do what was asked."""


class NotStored(StateError):
    """Nobody keeps what was asked for."""

    def __init__(self, key: str, where: str) -> None:
        super().__init__(f'{where} keeps no session {key!r}: open it anew')
        self.key = key


class KeysLost(StateError):
    """Only token ids are kept of a session; keys and values have to be computed again."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f'only tokens are kept, {why}: restore with policy REPREFILL to compute them anew'
        )

# SPDX-License-Identifier: Apache-2.0
"""Errors of the backbone, one class per reaction of whoever meets them.

    BackboneError
    +-- StartError               the operator must fix the set-up; the server does not start
    +-- TurnError                goes to the robot, with a reason
        +-- FixRequestError      the request is wrong; repeating it does not help
        |   +-- HistoryGapError  the robot must send its history from an earlier entry on
        +-- ReopenSessionError   the session is gone or older than the robot's; open it anew
        +-- RetryCallError       the same call may succeed later
            +-- PoolExhaustedError   after caches of idle sessions were moved out of memory

``reaction`` is the one place that says what an exception means on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import auto, Enum

import grpc


class Reason(Enum):
    """Machine-readable reasons; the names are those of ``ErrorReason`` on the wire."""

    BAD_INSTRUCTION = auto()
    BAD_IMAGE = auto()
    BAD_JOINTS = auto()
    BAD_EMBODIMENT = auto()
    PROTOCOL_MISMATCH = auto()
    STALE_EPOCH = auto()
    SESSION_LOST = auto()
    OVERLOADED = auto()
    DEADLINE_PASSED = auto()
    DRAINING = auto()
    INTERNAL = auto()
    PROTOCOL_ORDER = auto()
    BAD_CACHE_POLICY = auto()
    HISTORY_GAP = auto()
    STEP_CONFLICT = auto()
    BAD_MEMORY = auto()
    NO_SNAPSHOT = auto()


class Remedy(Enum):
    """What the robot should do; the names are those of ``Remedy`` on the wire."""

    RETRY_CALL = auto()
    REOPEN_SESSION = auto()
    FIX_REQUEST = auto()


class BackboneError(Exception):
    """Any error of this package."""


class StartError(BackboneError):
    """The server cannot start; the message is one sentence with the remedy."""


class TurnError(BackboneError):
    """Goes to the robot. Raise one of its subclasses."""

    remedy: Remedy
    status: grpc.StatusCode | None = None
    """Status of the call; None leaves it to the reason."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class FixRequestError(TurnError):
    """The request is wrong."""

    remedy = Remedy.FIX_REQUEST


class HistoryGapError(FixRequestError):
    """Entries are missing between what is known and what the turn brings."""

    def __init__(self, first: int, expected: int) -> None:
        super().__init__(
            Reason.HISTORY_GAP,
            f'the history of the turn begins at entry {first}, this backbone has {expected}: '
            f'send it from entry {expected} on',
        )
        self.expected_entry = expected


class ReopenSessionError(TurnError):
    """The session is gone or has moved on."""

    remedy = Remedy.REOPEN_SESSION


class RetryCallError(TurnError):
    """The backbone cannot answer now."""

    remedy = Remedy.RETRY_CALL


class PoolExhaustedError(RetryCallError):
    """There is no page left for this turn."""

    def __init__(self, why: str) -> None:
        super().__init__(Reason.OVERLOADED, why)


class LoadingError(RetryCallError):
    """The model is not there yet."""

    status = grpc.StatusCode.UNAVAILABLE

    def __init__(self) -> None:
        super().__init__(
            Reason.OVERLOADED,
            'this backbone is loading its model; its health service says when it serves',
        )


class DrainingError(RetryCallError):
    """The backbone is being shut down."""

    def __init__(self) -> None:
        super().__init__(
            Reason.DRAINING, 'this backbone is being shut down; connect again in some seconds'
        )


@dataclass(frozen=True)
class Reaction:
    """What the robot is told about an exception."""

    status: grpc.StatusCode
    """Status of the call, where the error ends it."""
    reason: Reason
    remedy: Remedy
    message: str
    expected_entry: int = 0
    """First entry that a history must be sent from; only with HISTORY_GAP."""


_STATUS = {
    Reason.PROTOCOL_MISMATCH: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.PROTOCOL_ORDER: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.BAD_EMBODIMENT: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.BAD_CACHE_POLICY: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.STALE_EPOCH: grpc.StatusCode.ABORTED,
    Reason.SESSION_LOST: grpc.StatusCode.NOT_FOUND,
    Reason.STEP_CONFLICT: grpc.StatusCode.ABORTED,
    Reason.HISTORY_GAP: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.NO_SNAPSHOT: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.OVERLOADED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.DEADLINE_PASSED: grpc.StatusCode.DEADLINE_EXCEEDED,
    Reason.DRAINING: grpc.StatusCode.UNAVAILABLE,
    Reason.INTERNAL: grpc.StatusCode.INTERNAL,
}


def reaction(error: BaseException) -> Reaction:
    """Translate any exception; what is not a TurnError is a fault of the backbone."""
    if isinstance(error, TurnError):
        status = _STATUS.get(error.reason, grpc.StatusCode.INVALID_ARGUMENT)
        expected = error.expected_entry if isinstance(error, HistoryGapError) else 0
        return Reaction(
            error.status or status, error.reason, error.remedy, str(error), expected
        )
    message = f'fault of the backbone ({type(error).__name__}); its log says more'
    return Reaction(
        grpc.StatusCode.INTERNAL, Reason.INTERNAL, Remedy.RETRY_CALL, message
    )


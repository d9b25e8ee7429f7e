# SPDX-License-Identifier: Apache-2.0
"""Errors of the composition root, one class per reaction of the caller.

TendonError
├── PartDied        a process of the run ended by itself: read its log
├── PartNotReady    a process did not become ready in time: read its log
├── TaskNotOver     the robot came to no result in time: read the transcript
├── WorkerFailed    an episode could not be run: the text is the reason
└── BadRequest      what was asked for cannot be done: change the request
"""

from pathlib import Path


class TendonError(Exception):
    """Base of all errors of this package; its text is one sentence for people."""


class PartDied(TendonError):
    """A process of the run ended by itself."""

    def __init__(
        self, name: str, status: int, last_line: str, log: Path | None = None
    ) -> None:
        where = f' (log: {log})' if log else ''
        super().__init__(f'{name} ended with status {status}: {last_line}{where}')


class PartNotReady(TendonError):
    """A process did not become ready in time."""

    def __init__(self, name: str, timeout_s: float, log: Path | None = None) -> None:
        where = f' (log: {log})' if log else ''
        super().__init__(f'{name} was not ready within {timeout_s:.0f} s{where}')


class TaskNotOver(TendonError):
    """The robot came to no result in time."""

    def __init__(self, instruction: str, timeout_s: float, last: str) -> None:
        super().__init__(
            f'{instruction!r} was not over within {timeout_s:.0f} s; '
            f'last seen: {last or "nothing"}'
        )


class WorkerFailed(TendonError):
    """An episode could not be run; the text is the reason that its process gave."""


class BadRequest(TendonError):
    """What was asked for cannot be done; the text says what can."""

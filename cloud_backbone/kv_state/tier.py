# SPDX-License-Identifier: Apache-2.0
"""Where a session's state may be, how much of each place there is, and who gives way first.

Knows bytes and times; moves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
import math


class Tier(IntEnum):
    """Places, the quickest first."""

    POOL = 0
    """Pages of the pool: the next token attends at once."""
    HOST = 1
    """A copy in the memory of the process, exact."""
    DISK = 2
    """A snapshot in the store, exact."""
    TOKENS = 3
    """Token ids and hashes of images: the rest has to be computed again."""


@dataclass(frozen=True)
class TierLimits:
    """How much a tier may hold, and for how long.

    Raises:
        ValueError: a limit is negative.
    """

    byte_limit: int | None = None
    """The most that all sessions take there [B]; 0: the tier is left out; None: no limit."""
    idle_s: float = math.inf
    """A session that was not used for so long, wherever it was, moves down [s]; from TOKENS it is
    forgotten. Time that its robot said it would be away does not count."""

    def __post_init__(self) -> None:
        if (self.byte_limit or 0) < 0 or not self.idle_s >= 0:
            raise ValueError(
                f'a tier of {self.byte_limit} bytes for {self.idle_s} s; neither is negative'
            )


@dataclass
class Place:
    """Where one session is."""

    key: str
    tier: Tier
    byte_count: int
    """What it takes there [B]."""
    used_s: float
    """When it was last used, on the clock of the tiers [s]."""
    resume_s: float | None = None
    """When its robot says that it will be back; None: it does not say."""

    def idle(self, now_s: float) -> float:
        """Return for how long it was not used although its robot could be back [s]."""
        return now_s - max(self.used_s, self.resume_s or self.used_s)

    def wait(self, now_s: float) -> float:
        """Return how long it will probably not be used [s].

        As long as the robot said. Of one that says nothing, or is overdue: as long again as it
        has been idle, so that the least recently used goes first.
        """
        if self.resume_s is not None and self.resume_s > now_s:
            return self.resume_s - now_s
        return now_s - self.used_s


def first_to_go(places: Iterable[Place], now_s: float) -> Place | None:
    """Return the session that is probably not used for the longest time; of equals the oldest."""
    return max(
        places, key=lambda place: (place.wait(now_s), -place.used_s, place.key), default=None
    )

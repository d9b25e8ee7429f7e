# SPDX-License-Identifier: Apache-2.0
"""Faults, and the one table that says how the robot reacts to each.

Looks at ages and states that it is given; measures nothing, commands nothing.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum

from onboard_decoder.clock import to_ns
from onboard_decoder.config import WatchdogLimits
from onboard_decoder.planner_port import Link

_SLOW_PACE = 0.5


class Reaction(IntEnum):
    """What to do, from the mildest to the hardest."""

    REPORT = 0  # go on, tell people
    FINISH_STEP = 1  # finish the step, start no other
    HOLD = 2  # the arm stays where it is and the task waits
    BRAKE = 3  # come to rest now


class Fault(Enum):
    """What can be missing."""

    JOINTS_STALE = 'joints_stale'
    IMAGE_STALE = 'image_stale'
    PLAN_LATE = 'plan_late'
    CHUNK_EXPIRED = 'chunk_expired'
    SERVER_GONE = 'server_gone'
    ON_ITS_OWN = 'on_its_own'  # the same, and the small planner on board stands in
    DECODER_SLOW = 'decoder_slow'
    ARM_LAGS = 'arm_lags'
    STOPPED = 'stopped'


REACTIONS = {
    Fault.JOINTS_STALE: Reaction.BRAKE,
    Fault.IMAGE_STALE: Reaction.HOLD,
    Fault.PLAN_LATE: Reaction.HOLD,
    Fault.CHUNK_EXPIRED: Reaction.BRAKE,
    Fault.SERVER_GONE: Reaction.FINISH_STEP,
    Fault.ON_ITS_OWN: Reaction.REPORT,
    Fault.DECODER_SLOW: Reaction.REPORT,
    Fault.ARM_LAGS: Reaction.REPORT,  # the command loop slows down by itself
    Fault.STOPPED: Reaction.BRAKE,
}


@dataclass(frozen=True, slots=True)
class Health:
    """What the watchdog looks at; ages in [ns], None where there is nothing yet or no need."""

    joints_age_ns: int | None
    image_wait_ns: int | None
    turn_age_ns: int | None
    is_acting: bool
    has_target: bool
    link: Link
    is_decoder_slow: bool
    is_stopped: bool
    pace: float = 1.0
    has_fallback: bool = False


class Watchdog:
    """Turns ages and states into faults."""

    def __init__(self, limits: WatchdogLimits) -> None:
        self._joints_ns = to_ns(limits.joints_stale_s)
        self._image_ns = to_ns(limits.image_stale_s)
        self._plan_ns = to_ns(limits.plan_late_s)

    def are_joints_stale(self, age_ns: int | None) -> bool:
        """True if there are no joints or they are too old [ns]."""
        return age_ns is None or age_ns > self._joints_ns

    def check(self, health: Health) -> tuple[Fault, ...]:
        """Return the faults of this moment."""
        is_gone = health.link in (Link.DEGRADED, Link.LOST)
        found = {
            Fault.STOPPED: health.is_stopped,
            Fault.JOINTS_STALE: self.are_joints_stale(health.joints_age_ns),
            Fault.IMAGE_STALE: _beyond(health.image_wait_ns, self._image_ns),
            Fault.PLAN_LATE: _beyond(health.turn_age_ns, self._plan_ns),
            Fault.CHUNK_EXPIRED: health.is_acting and not health.has_target,
            Fault.SERVER_GONE: is_gone and not health.has_fallback,
            Fault.ON_ITS_OWN: is_gone and health.has_fallback,
            Fault.ARM_LAGS: health.is_acting and health.pace < _SLOW_PACE,
            Fault.DECODER_SLOW: health.is_acting and health.is_decoder_slow,
        }
        return tuple(fault for fault, is_there in found.items() if is_there)


def reaction(faults: tuple[Fault, ...]) -> Reaction:
    """Return the hardest reaction of some faults; REPORT where there are none."""
    return max((REACTIONS[fault] for fault in faults), default=Reaction.REPORT)


def _beyond(age_ns: int | None, limit_ns: int) -> bool:
    """True for an age above its limit."""
    return age_ns is not None and age_ns > limit_ns

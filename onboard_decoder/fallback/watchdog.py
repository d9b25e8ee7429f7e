# SPDX-License-Identifier: Apache-2.0
"""Faults, and the one table that says how the robot reacts to each.

Looks at ages and states that it is given; measures nothing, commands nothing.
"""

from collections.abc import Iterable
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
    HOLD = 2  # the task has nothing to do and waits; the arm stays where it is
    BRAKE = 3  # come to rest now

    @property
    def word(self) -> str:
        """The reaction as people read it."""
        return self.name.lower()


class Fault(Enum):
    """What can be missing, or wrong."""

    JOINTS_STALE = 'joints_stale'  # no joints, or old ones
    JOINTS_FROZEN = 'joints_frozen'  # new stamps, old values, though the arm is led elsewhere
    IMAGE_STALE = 'image_stale'  # an image is needed and does not come
    IMAGE_FROZEN = 'image_frozen'  # new stamps, old pixels, though the arm moves
    PLAN_LATE = 'plan_late'  # a turn has no answer yet, and the arm waits for it
    NO_PLAN = 'no_plan'  # the same for long, over several turns
    CHUNK_EXPIRED = 'chunk_expired'  # a step is run and there is nothing to aim at
    SERVER_GONE = 'server_gone'  # there was a session, there is none
    SERVER_SILENT = 'server_silent'  # the stream is open, nothing is heard
    ON_ITS_OWN = 'on_its_own'  # either of them, and the small planner on board stands in
    LINK_SLOW = 'link_slow'
    DECODER_SLOW = 'decoder_slow'
    ARM_LAGS = 'arm_lags'
    ESTOP = 'estop'  # the emergency stop is pressed
    STOPPED = 'stopped'  # somebody stopped the robot; the next instruction starts anew


REACTIONS = {
    Fault.JOINTS_STALE: Reaction.BRAKE,
    Fault.JOINTS_FROZEN: Reaction.BRAKE,
    Fault.IMAGE_STALE: Reaction.HOLD,
    Fault.IMAGE_FROZEN: Reaction.FINISH_STEP,  # steps are run by the joints; no turn is asked
    Fault.PLAN_LATE: Reaction.HOLD,
    Fault.NO_PLAN: Reaction.HOLD,
    Fault.CHUNK_EXPIRED: Reaction.BRAKE,
    Fault.SERVER_GONE: Reaction.FINISH_STEP,
    Fault.SERVER_SILENT: Reaction.FINISH_STEP,
    Fault.ON_ITS_OWN: Reaction.REPORT,
    Fault.LINK_SLOW: Reaction.REPORT,
    Fault.DECODER_SLOW: Reaction.REPORT,
    Fault.ARM_LAGS: Reaction.REPORT,  # the command loop slows down by itself
    Fault.ESTOP: Reaction.BRAKE,
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
    plan_wait_ns: int | None = None
    round_trip_s: float | None = None
    are_joints_frozen: bool = False
    is_image_frozen: bool = False
    is_estopped: bool = False


class Watchdog:
    """Turns ages and states into faults."""

    def __init__(self, limits: WatchdogLimits) -> None:
        self._joints_ns = to_ns(limits.joints_stale_s)
        self._image_ns = to_ns(limits.image_stale_s)
        self._plan_ns, self._no_plan_ns = to_ns(limits.plan_late_s), to_ns(limits.no_plan_s)
        self._slow_link_s = limits.link_slow_s

    def are_joints_stale(self, age_ns: int | None) -> bool:
        """True if there are no joints or they are too old [ns]."""
        return age_ns is None or age_ns > self._joints_ns

    def check(self, health: Health) -> tuple[Fault, ...]:
        """Return the faults of this moment."""
        is_gone = health.link in (Link.DEGRADED, Link.LOST)
        is_silent = health.link is Link.SILENT
        has_slow_link = (health.round_trip_s or 0.0) > self._slow_link_s
        found = {
            Fault.ESTOP: health.is_estopped,
            Fault.STOPPED: health.is_stopped,
            Fault.JOINTS_STALE: self.are_joints_stale(health.joints_age_ns),
            Fault.JOINTS_FROZEN: health.are_joints_frozen,
            Fault.IMAGE_STALE: _beyond(health.image_wait_ns, self._image_ns),
            Fault.IMAGE_FROZEN: health.is_image_frozen,
            # A turn that is asked while the arm is still busy is waited for by nobody.
            Fault.PLAN_LATE: not health.is_acting and _beyond(health.turn_age_ns, self._plan_ns),
            Fault.NO_PLAN: _beyond(health.plan_wait_ns, self._no_plan_ns),
            Fault.CHUNK_EXPIRED: health.is_acting and not health.has_target,
            Fault.SERVER_GONE: is_gone and not health.has_fallback,
            Fault.SERVER_SILENT: is_silent and not health.has_fallback,
            Fault.ON_ITS_OWN: (is_gone or is_silent) and health.has_fallback,
            Fault.LINK_SLOW: health.link is Link.READY and has_slow_link,
            Fault.ARM_LAGS: health.is_acting and health.pace < _SLOW_PACE,
            Fault.DECODER_SLOW: health.is_acting and health.is_decoder_slow,
        }
        return tuple(fault for fault, is_there in found.items() if is_there)


def may_begin_step(faults: Iterable[Fault]) -> bool:
    """Say whether the robot may begin a step."""
    return Reaction.FINISH_STEP not in [REACTIONS[fault] for fault in faults]


def _beyond(age_ns: int | None, limit_ns: int) -> bool:
    """True for an age above its limit."""
    return age_ns is not None and age_ns > limit_ns

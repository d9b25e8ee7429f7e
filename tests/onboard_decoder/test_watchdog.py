# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

from onboard_decoder.config import WatchdogLimits
from onboard_decoder.fallback.watchdog import (
    Fault,
    Health,
    Reaction,
    reaction,
    REACTIONS,
    Watchdog,
)
from onboard_decoder.planner_port import Link
import pytest

MS = 1_000_000
WELL = Health(
    joints_age_ns=10 * MS, image_wait_ns=None, turn_age_ns=None, is_acting=True, has_target=True,
    link=Link.READY, is_decoder_slow=False, is_stopped=False,
)


def test_a_healthy_robot_has_no_fault():
    """And nothing to react to."""
    faults = Watchdog(WatchdogLimits()).check(WELL)

    assert faults == ()
    assert reaction(faults) is Reaction.REPORT


@pytest.mark.parametrize(('change', 'fault'), [
    ({'joints_age_ns': None}, Fault.JOINTS_STALE),
    ({'joints_age_ns': 251 * MS}, Fault.JOINTS_STALE),
    ({'image_wait_ns': 1001 * MS}, Fault.IMAGE_STALE),
    ({'turn_age_ns': 251 * MS}, Fault.PLAN_LATE),
    ({'has_target': False}, Fault.CHUNK_EXPIRED),
    ({'link': Link.DEGRADED}, Fault.SERVER_GONE),
    ({'link': Link.LOST}, Fault.SERVER_GONE),
    ({'is_decoder_slow': True}, Fault.DECODER_SLOW),
    ({'pace': 0.4}, Fault.ARM_LAGS),
    ({'is_stopped': True}, Fault.STOPPED),
])
def test_each_thing_that_is_missing_is_its_own_fault(change, fault):
    """One fault, and it is in the table."""
    faults = Watchdog(WatchdogLimits()).check(replace(WELL, **change))

    assert faults == (fault,)
    assert reaction(faults) is REACTIONS[fault]


def test_the_hardest_reaction_wins():
    """Server gone and joints stale: brake."""
    assert reaction((Fault.SERVER_GONE, Fault.JOINTS_STALE)) is Reaction.BRAKE
    assert set(REACTIONS) == set(Fault)


def test_limits_are_inclusive():
    """At the limit it is not yet a fault."""
    health = replace(WELL, joints_age_ns=250 * MS, turn_age_ns=250 * MS, image_wait_ns=1000 * MS)

    assert Watchdog(WatchdogLimits()).check(health) == ()

# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

from onboard_decoder.config import WatchdogLimits
from onboard_decoder.fallback.watchdog import (
    Fault,
    Health,
    may_begin_step,
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
    assert may_begin_step(faults)


@pytest.mark.parametrize(('change', 'fault'), [
    ({'joints_age_ns': None}, Fault.JOINTS_STALE),
    ({'joints_age_ns': 251 * MS}, Fault.JOINTS_STALE),
    ({'image_wait_ns': 1001 * MS}, Fault.IMAGE_STALE),
    ({'turn_age_ns': 251 * MS, 'is_acting': False}, Fault.PLAN_LATE),
    ({'plan_wait_ns': 5001 * MS}, Fault.NO_PLAN),
    ({'has_target': False}, Fault.CHUNK_EXPIRED),
    ({'link': Link.DEGRADED}, Fault.SERVER_GONE),
    ({'link': Link.LOST}, Fault.SERVER_GONE),
    ({'is_decoder_slow': True}, Fault.DECODER_SLOW),
    ({'pace': 0.4}, Fault.ARM_LAGS),
    ({'is_stopped': True}, Fault.STOPPED),
    ({'is_estopped': True}, Fault.ESTOP),
    ({'link': Link.SILENT}, Fault.SERVER_SILENT),
    ({'link': Link.SILENT, 'has_fallback': True}, Fault.ON_ITS_OWN),
    ({'link': Link.LOST, 'has_fallback': True}, Fault.ON_ITS_OWN),
    ({'round_trip_s': 0.101}, Fault.LINK_SLOW),
    ({'are_joints_frozen': True}, Fault.JOINTS_FROZEN),
    ({'is_image_frozen': True}, Fault.IMAGE_FROZEN),
])
def test_each_thing_that_is_missing_is_its_own_fault(change, fault):
    """One fault, and no other beside it."""
    faults = Watchdog(WatchdogLimits()).check(replace(WELL, **change))

    assert faults == (fault,)


def test_every_fault_has_a_reaction():
    """None is found that the table does not know."""
    assert set(REACTIONS) == set(Fault)


def test_limits_are_inclusive():
    """At the limit it is not yet a fault."""
    health = replace(
        WELL, joints_age_ns=250 * MS, turn_age_ns=250 * MS, image_wait_ns=1000 * MS,
        is_acting=False, plan_wait_ns=5000 * MS, round_trip_s=0.1,
    )

    assert Watchdog(WatchdogLimits()).check(health) == ()


def test_a_turn_that_is_asked_while_the_arm_is_busy_is_not_late():
    """Nobody waits for it yet."""
    health = replace(WELL, turn_age_ns=2000 * MS, is_acting=True)

    assert Watchdog(WatchdogLimits()).check(health) == ()


@pytest.mark.parametrize('fault', Fault)
def test_no_step_is_begun_where_the_table_says_so(fault):
    """Finish the step, begin no other: for these faults and no others."""
    finishing = {Fault.SERVER_GONE, Fault.SERVER_SILENT, Fault.IMAGE_FROZEN}

    assert may_begin_step([fault]) is (fault not in finishing)

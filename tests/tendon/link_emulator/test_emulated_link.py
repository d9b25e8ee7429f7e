# SPDX-License-Identifier: Apache-2.0
"""Promises of the emulated link between two network namespaces; they need root."""

import os
import signal
import statistics
import subprocess
import sys

import pytest
from tendon.errors import PartDied
from tendon.link_emulator.channel import End
from tendon.link_emulator.echo import round_trips_ms
from tendon.link_emulator.link import EmulatedLink
from tendon.link_emulator.profile import Direction, LinkProfile, profile_named
from tendon.link_emulator.stray_processes import sweep

from tests.tendon.link_emulator.places import (
    are_held,
    is_alive,
    is_gone,
    places,
    python,
    ROOT,
    sleeper,
    why_not,
)

WHY_NOT = why_not()
pytestmark = [
    pytest.mark.netns, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or 'possible here'),
]
IDEAL = LinkProfile('ideal')
# A run that starts a link and a process at its end, says which, and waits to be killed.
RUN = """
import sys, time
from tendon.link_emulator.channel import End
from tendon.link_emulator.link import EmulatedLink
from tendon.link_emulator.profile import LinkProfile
from tests.tendon.link_emulator.places import places, sleeper
with EmulatedLink(LinkProfile('ideal')) as link:
    print(link.pid, sleeper(link, End.BACKBONE), places(link), sep=';', flush=True)
    time.sleep(120)
"""
SERVER = """
import sys, threading
from tests.fakes.scripted_planner import plan_of, ScriptedPlanner, step
class Here(ScriptedPlanner):
    address = sys.argv[1]
with Here([plan_of(step('reach', (0.4, 0.0, 0.2)))]):
    print('serving', flush=True)
    threading.Event().wait()
"""
CLIENT = """
import statistics, sys, time
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_client import PlannerClient
from onboard_decoder.planner_port import Link, TurnRequest
took = []
with PlannerClient(sys.argv[1], 'robot-1', load_manifest('tendon_arm')) as client:
    deadline_s = time.monotonic() + 20
    while client.state().link is not Link.READY:
        assert time.monotonic() < deadline_s
        time.sleep(0.002)
    for number in range(12):
        started_s = time.monotonic()
        pending = client.submit(TurnRequest(
            f't{number}', 'pick it', {'front': bytes(12_000)}, (0.0,) * 7, 1, 10.0
        ))
        while pending.poll() is None:
            time.sleep(0.0005)
        took.append(time.monotonic() - started_s)
print(statistics.median(took))
"""


def median_ms(link: EmulatedLink) -> float:
    """Return the median round trip of a link, seen from the robot."""
    with link.at(End.ROBOT):
        return statistics.median(round_trips_ms(link.addresses[End.BACKBONE], 12, 0.01))


def test_links_are_as_slow_as_asked_for() -> None:
    """The emulator adds little of its own; wifi is slower than that, lte slower than wifi."""
    found = {}
    for name in ('ideal', 'wifi', 'lte'):
        with EmulatedLink(profile_named(name), seed=0) as link:
            found[name] = median_ms(link)
    assert found['ideal'] < found['wifi'] < found['lte']
    lte = profile_named('lte')
    assert found['lte'] >= lte.up.delay_ms + lte.down.delay_ms


def test_both_ends_see_the_other_and_nothing_else() -> None:
    """There is no way from one end to the machine's own network."""
    with EmulatedLink(IDEAL) as link:
        with link.at(End.BACKBONE):
            assert round_trips_ms(link.addresses[End.ROBOT], 2, 0.0)
            assert round_trips_ms('127.0.0.1', 1, 0.0)  # its own loopback is up
            assert not round_trips_ms('198.51.100.1', 1, 0.0, timeout_s=0.1)


def test_a_cut_link_is_away_and_comes_back() -> None:
    """Nothing gets through while it is cut; afterwards everything does."""
    with EmulatedLink(IDEAL) as link, link.at(End.ROBOT):
        there = link.addresses[End.BACKBONE]
        link.cut(60.0)
        assert link.counts()
        assert not round_trips_ms(there, 3, 0.0, timeout_s=0.1)
        link.cut(0.0)
        assert link.counts()['robot']['cut'] >= 3
        assert len(round_trips_ms(there, 3, 0.0)) == 3


def test_loss_and_a_full_queue_are_counted() -> None:
    """A run can say what its link did to it."""
    slow = Direction(rate_mbit_s=0.05, queue_bytes=1500)
    with EmulatedLink(LinkProfile('x', up=slow), seed=1) as link:
        with link.at(End.ROBOT):
            round_trips_ms(link.addresses[End.BACKBONE], 200, 0.0, timeout_s=0.0001)
        assert link.counts()['robot']['overflowed'] > 0


def test_nothing_is_left_behind() -> None:
    """After a normal end: no process at its ends, no namespace, no link."""
    with EmulatedLink(IDEAL) as link:
        left, spaces = [sleeper(link, end) for end in End], places(link)
        assert are_held(spaces)
    assert all(is_gone(pid) for pid in [*left, link.pid])
    assert not are_held(spaces)


def test_an_error_leaves_nothing_behind() -> None:
    """Neither does a run that breaks inside."""
    with pytest.raises(RuntimeError, match='broken'), EmulatedLink(IDEAL) as link:
        left, spaces = sleeper(link, End.ROBOT), places(link)
        with link.at(End.BACKBONE):
            raise RuntimeError('broken')
    assert is_gone(left)
    assert not are_held(spaces)


def test_a_killed_run_leaves_nothing_behind() -> None:
    """SIGKILL gives the run no chance; its link clears up."""
    run = python(RUN)
    assert run.stdout is not None
    link, left, spaces = run.stdout.readline().strip().split(';')
    run.kill()
    run.wait()
    run.stdout.close()
    assert is_gone(int(left))
    assert is_gone(int(link))
    assert not are_held(eval(spaces))


def test_a_link_that_dies_is_reported_and_cleared_up() -> None:
    """The run hears of it; what was at its ends does not stay."""
    with EmulatedLink(IDEAL) as link:
        left = sleeper(link, End.BACKBONE)
        link.check()
        os.kill(link.pid, signal.SIGKILL)
        with pytest.raises(PartDied, match='link ended'):
            link.counts()
    assert is_gone(left)


def test_what_a_dead_run_left_is_swept_by_the_next() -> None:
    """Where run and link were killed at once, the next link ends what they left; and only that."""
    run = python(RUN)
    assert run.stdout is not None
    link, left, _ = run.stdout.readline().strip().split(';')
    with EmulatedLink(IDEAL) as other:
        mine = sleeper(other, End.ROBOT)
        # The link first: it would clear up when the run dies.
        os.kill(int(link), signal.SIGKILL)
        run.kill()
        run.wait()
        run.stdout.close()
        assert is_gone(int(link))
        assert is_alive(int(left))
        assert int(left) in sweep()
        assert is_gone(int(left))
        assert is_alive(mine)


def test_turns_over_lte_are_slower_than_over_an_ideal_link() -> None:
    """A robot's stream goes through the emulator: client and server as they are."""
    took = {}
    for name in ('ideal', 'lte'):
        with EmulatedLink(profile_named(name), seed=0) as link:
            address = f'{link.addresses[End.BACKBONE]}:50251'
            with link.at(End.BACKBONE):
                server = python(SERVER, address)
            assert server.stdout is not None and server.stdout.readline() == 'serving\n'
            with link.at(End.ROBOT):
                took[name] = float(python(CLIENT, address).communicate(timeout=60)[0])
            server.kill()
            server.wait()
            server.stdout.close()
    assert took['lte'] > took['ideal']


def test_without_the_right_one_sentence_says_what_is_missing() -> None:
    """The command ends with status 2 instead of measuring without the link."""
    drop = (
        'import ctypes, os, sys; ctypes.CDLL(None).prctl(24, 21, 0, 0, 0);'
        'os.execv(sys.executable, [sys.executable, *sys.argv[1:]])'
    )
    done = subprocess.run(
        [sys.executable, '-c', drop, '-m', 'tendon.cli', 'bench', 'latency', '--link', 'lte'],
        capture_output=True, text=True, timeout=60, cwd=ROOT,
    )
    assert done.returncode == 2
    assert 'CAP_SYS_ADMIN' not in done.stdout
    assert 'right to make network namespaces' in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1

# SPDX-License-Identifier: Apache-2.0
"""Promises of the doctor."""

import os
import socket

from protos.protocol import DEFAULT_PORT
import pytest
from rich.console import Console
from tendon import doctor, doctor_checks
from tendon.doctor_finding import Finding, State


@pytest.fixture
def only(monkeypatch):
    """Leave the doctor with one check that finds this."""
    def leave(check):
        monkeypatch.setattr(doctor, 'checks', lambda backbone: {'thing': check})
    return leave


@pytest.mark.parametrize(('state', 'status'), [
    (State.OK, 0), (State.WARNING, 0), (State.SKIPPED, 0), (State.FAILURE, 1),
])
def test_only_what_is_missing_fails(only, state, status):
    """A warning, and what could not be checked, leave the exit status 0."""
    only(lambda: Finding('thing', state, 'found', 'remedy'))

    assert doctor.run() == status


def test_a_broken_check_is_a_finding(only, capsys):
    """The doctor survives, and tells what broke."""
    def breaks():
        raise RuntimeError('no display\nat all')

    only(breaks)

    assert doctor.run() == 1
    assert 'RuntimeError: no display' in capsys.readouterr().out


def test_remedies_are_shown_whole():
    """A path is folded, never cut, so that it can be copied; brackets are no styles."""
    path = '/a/very/long/path' * 12
    console = Console(width=60)

    with console.capture() as captured:
        found = Finding('thing', State.FAILURE, path, "pip install 'tendon[all]'")
        console.print(doctor.table_of([found]))
    shown = captured.get()

    assert '…' not in shown
    assert "'tendon[all]'" in shown


def test_a_busy_port_is_found():
    """Another program on the backbone's port is a warning with a remedy."""
    with socket.socket() as other:
        try:
            other.bind(('127.0.0.1', DEFAULT_PORT))
        except OSError:
            pytest.skip(f'port {DEFAULT_PORT} is in use already')
        other.listen()
        found = doctor_checks.port()

    assert found.state is State.WARNING
    assert '--port' in found.remedy


def test_a_profile_that_is_not_there_is_found(monkeypatch):
    """Fast DDS would ignore it in silence."""
    monkeypatch.setenv(doctor_checks.PROFILE_VARIABLE, '/nowhere/fastdds.xml')

    found = doctor_checks.dds_profile()

    assert found.state is State.FAILURE
    assert found.remedy.endswith('config/fastdds.xml')


def test_a_profile_that_is_there_is_right(monkeypatch, root):
    """The one that comes with Tendon."""
    monkeypatch.setenv(doctor_checks.PROFILE_VARIABLE, str(root / 'config' / 'fastdds.xml'))

    assert doctor_checks.dds_profile().state is State.OK


def test_no_profile_is_a_warning(monkeypatch):
    """Big images get lost, small ones do not."""
    monkeypatch.delenv(doctor_checks.PROFILE_VARIABLE)

    assert doctor_checks.dds_profile().state is State.WARNING


def test_a_priority_that_nobody_gets_is_a_warning():
    """With the reason of the system, and where to ask for the right."""
    found = doctor_checks.real_time(level=100)  # above the highest

    assert found.state is State.WARNING
    assert 'SCHED_FIFO 100 refused' in found.detail
    assert 'limits.conf' in found.remedy


def test_what_the_check_takes_it_gives_back():
    """The doctor itself goes on at the priority that it had."""
    before = os.sched_getscheduler(0)
    doctor_checks.real_time(level=1)

    assert os.sched_getscheduler(0) == before


def test_every_part_of_a_robot_is_looked_at():
    """Machine, way, backbone and graph, each under its name."""
    names = doctor.checks('cloud.example:50251')

    assert {'real time', 'TCP', 'DDS profile', 'steady clock', 'proxy', 'backbone', 'clocks',
            'joints and camera'} <= names.keys()


def test_one_check_may_find_several_things(only, capsys):
    """Joints and cameras are heard in one go."""
    only(lambda: [Finding('joints', State.OK, '50 Hz'), Finding('camera', State.FAILURE, 'dark')])

    assert doctor.run() == 1
    assert 'Not ready: camera.' in capsys.readouterr().out


@pytest.mark.slow
def test_this_machine_renders():
    """The check draws a real picture."""
    assert doctor_checks.rendering().state is State.OK

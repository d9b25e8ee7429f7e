# SPDX-License-Identifier: Apache-2.0
"""Promises of the doctor."""

import socket

from protos.protocol import DEFAULT_PORT
import pytest
from rich.console import Console
from tendon import doctor, doctor_checks
from tendon.doctor_checks import Finding, State


@pytest.fixture
def only(monkeypatch):
    """Leave the doctor with one check that finds this."""
    def leave(check):
        monkeypatch.setattr(doctor, 'CHECKS', {'thing': check})
    return leave


@pytest.mark.parametrize(('state', 'status'), [
    (State.OK, 0), (State.WARNING, 0), (State.FAILURE, 1),
])
def test_only_what_is_missing_fails(only, state, status):
    """A warning leaves the exit status 0."""
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
    """A path is folded, never cut, so that it can be copied."""
    path = '/a/very/long/path' * 12
    console = Console(width=60)

    with console.capture() as captured:
        console.print(doctor.table_of([Finding('thing', State.FAILURE, path, 'do this')]))
    shown = captured.get()

    assert '…' not in shown
    assert 'do this' in shown


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


@pytest.mark.slow
def test_this_machine_renders():
    """The check draws a real picture."""
    assert doctor_checks.rendering().state is State.OK

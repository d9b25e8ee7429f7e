# SPDX-License-Identifier: Apache-2.0
"""Promises of the process stack."""

import os
from pathlib import Path
import time

import pytest
from tendon.errors import PartDied, PartNotReady
from tendon.stack import ros_environment, Stack


def alive(pid: int) -> bool:
    """Say whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_leaving_the_stack_ends_every_part(tmp_path: Path) -> None:
    """No process outlives the run."""
    with Stack(tmp_path) as stack:
        stack.start('server', 'http.server', '0')
        pid = stack.pid('server')
        assert alive(pid)
    assert not alive(pid)


def test_a_part_that_ignores_the_request_is_ended_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that does not react to an interrupt is killed."""
    stubborn = 'import signal,time;signal.signal(signal.SIGINT,signal.SIG_IGN);time.sleep(60)'
    (tmp_path / 'stubborn.py').write_text(stubborn)
    monkeypatch.setattr('tendon.stack.STOP_TIMEOUT_S', 0.3)
    with Stack(tmp_path) as stack:
        stack.environment['PYTHONPATH'] = str(tmp_path)
        stack.start('stubborn', 'stubborn')
        time.sleep(0.5)
        pid = stack.pid('stubborn')
    assert not alive(pid)


def test_a_part_that_dies_is_named_with_its_last_words(tmp_path: Path) -> None:
    """The error tells which part ended, how, and where its log is."""
    with Stack(tmp_path) as stack:
        stack.start('backbone', 'no_such_module')
        with pytest.raises(PartDied, match=r'backbone ended with status 1: .*no_such_module'):
            stack.wait('backbone', lambda: False, 20.0)


def test_waiting_has_an_end(tmp_path: Path) -> None:
    """A part that never gets ready is reported, not waited for."""
    with Stack(tmp_path) as stack:
        stack.start('server', 'http.server', '0')
        with pytest.raises(PartNotReady, match='server was not ready within 0 s'):
            stack.wait('server', lambda: False, 0.2)


def test_ros_stays_on_this_machine(tmp_path: Path) -> None:
    """Discovery is limited to the host and the domain is not everybody's."""
    environment = ros_environment(tmp_path)
    assert environment['ROS_AUTOMATIC_DISCOVERY_RANGE'] == 'LOCALHOST'
    assert 1 <= int(environment['ROS_DOMAIN_ID']) <= 100

# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys

from onboard_decoder import realtime
import pytest


def test_without_the_right_to_it_the_robot_runs_on_and_says_so(monkeypatch, caplog):
    """One warning with a remedy, and a state for the diagnostics."""
    def refused(*args):
        raise PermissionError('not permitted')

    monkeypatch.setattr(os, 'sched_setscheduler', refused)
    priority = realtime.Priority(80)

    assert not priority.take()
    assert 'refused' in priority.state
    assert 'rtprio' in caplog.text


def test_zero_asks_for_nothing(monkeypatch):
    """Nothing is called."""
    monkeypatch.setattr(os, 'sched_setscheduler', lambda *args: pytest.fail('called'))

    assert not realtime.Priority(0).take()


def test_a_process_is_raised_with_all_its_threads():
    """Where it is allowed: those there are, and those that start later."""
    code = (
        'import os, threading\n'
        'from onboard_decoder.realtime import prepare_process\n'
        'early, go = [], threading.Event()\n'
        't0 = threading.Thread(\n'
        '    target=lambda: (go.wait(), early.append(os.sched_getscheduler(0))))\n'
        't0.start()\n'
        'taken = prepare_process(5).state.endswith(" 5")\n'
        'seen = []\n'
        't = threading.Thread(target=lambda: seen.append(os.sched_getscheduler(0)))\n'
        't.start(); t.join()\n'
        'go.set(); t0.join()\n'
        'assert seen == early == [os.SCHED_FIFO if taken else os.SCHED_OTHER], seen\n'
    )

    done = subprocess.run([sys.executable, '-c', code], capture_output=True, timeout=60)

    assert done.returncode == 0, done.stderr

# SPDX-License-Identifier: Apache-2.0
import socket
import time

import pytest
from tendon.bench_faults.cable import Cable
from tendon.bench_faults.run import run, summary
from tendon.bench_faults.scenarios import Figures
from tendon.errors import BadRequest


def test_the_figures_are_medians_and_the_worst_and_missed_ticks_are_those_of_the_server():
    """A sum over the three server faults; what was not measured is null."""
    found = {
        'server killed': [Figures(40.0, 900.0, back, 1, 1, True) for back in (100, 400, 200)],
        'half-open socket': [Figures(260.0, 1200.0, 80.0, 2, 2, True)],
        'joints stale': [Figures(255.0, 500.0, 10.0, 7, 0, False)],
    }

    figures = summary(found)

    assert (figures['recover_s'], figures['recover_s_worst']) == (0.2, 0.4)
    assert figures['half_open_hold_ms'] == 260.0
    assert figures['half_open_rest_ms'] == 1200.0
    assert figures['frozen_detect_ms'] is None
    assert figures['missed_ticks'] == 5
    assert figures['steps_begun_meanwhile'] == 1
    assert figures['faults']['joints stale']['done'] == 0


@pytest.mark.parametrize(('change', 'words'), [
    ({'only': 'sunshine'}, "fault is 'sunshine'; allowed: all, server killed"),
    ({'repetitions': 0}, 'repetitions is 0; allowed: 1 or more'),
])
def test_what_cannot_be_measured_is_refused_before_anything_starts(tmp_path, change, words):
    """With what is allowed."""
    with pytest.raises(BadRequest, match=words):
        run(out=tmp_path, **change)


def test_a_cut_cable_lets_nothing_pass_and_closes_nothing_and_a_mended_one_loses_nothing():
    """In both directions, for a connection of before and for one of meanwhile."""
    with socket.create_server(('127.0.0.1', 0)) as server:
        server.settimeout(10.0)
        with Cable(server.getsockname()[:2]) as cable:
            host, port = cable.address.split(':')
            with socket.create_connection((host, int(port)), timeout=10.0) as near:
                far, _ = server.accept()
                far.settimeout(10.0)
                near.sendall(b'before')
                assert far.recv(100) == b'before'

                cable.cut()
                time.sleep(0.05)  # what was being carried is through
                near.sendall(b'up')
                far.sendall(b'down')
                with socket.create_connection((host, int(port)), timeout=10.0):
                    server.settimeout(0.2)
                    with pytest.raises(TimeoutError):
                        server.accept()
                    near.settimeout(0.2)
                    with pytest.raises(TimeoutError):
                        near.recv(100)

                    cable.mend()
                    server.settimeout(10.0)
                    near.settimeout(10.0)
                    assert near.recv(100) == b'down'
                    assert far.recv(100) == b'up'
                    server.accept()[0].close()
                far.close()


def test_a_cable_to_nowhere_refuses():
    """The end that connects sees the connection closed, as by a port without a server."""
    with Cable() as cable:
        host, port = cable.address.split(':')
        with socket.create_connection((host, int(port)), timeout=10.0) as near:
            assert near.recv(1) == b''

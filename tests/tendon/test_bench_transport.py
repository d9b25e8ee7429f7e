# SPDX-License-Identifier: Apache-2.0
"""Promises of the bench of the round trip, with the real server and the real client."""

import json
from pathlib import Path
import socket
import sys
import threading

import pytest

pytest.importorskip('torch')

from tendon.bench_transport.byte_counter import ByteCounter
from tendon.bench_transport.contestant import Contestant, Running, this_python
from tendon.bench_transport.peer_environments import find_python, how_to_make
from tendon.bench_transport.run import run
from tendon.errors import BadRequest, PartDied

STAND_IN = """
import os, sys, time
is_client = sys.argv[1] == 'client'
if is_client:
    os.close(0)
print(os.getpid(), flush=True)
time.sleep(0.5 if is_client else 60)
"""


@pytest.fixture(autouse=True)
def no_peers(tmp_path, monkeypatch):
    """Nothing is found in the cache of whoever runs the tests."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))


def test_it_runs_without_peers_and_says_how_to_get_them(tmp_path, capsys):
    """The last line is JSON: our figures, null for theirs."""
    assert run(out=tmp_path / 'out', rounds=1, calls=5) == 0

    printed = capsys.readouterr().out
    found = json.loads(printed.strip().splitlines()[-1])
    assert 0 < found['ours_ms_p50'] <= found['ours_ms_p99']
    assert found['ours_cpu_ms'] > 0
    assert 1000 < found['ours_bytes_up'] < found['ours_full_size_bytes_up'] < 480 * 640 * 3
    assert 100 < found['ours_bytes_down'] < 5000
    assert found['openpi_ms_p50'] is found['lerobot_ms_p50'] is found['ours_over_openpi'] is None
    assert {'machine', 'seed', 'commit', 'load_before', 'load_after'} <= set(found)
    assert 'lerobot is not installed' in printed
    assert json.loads((tmp_path / 'out' / 'transport.json').read_text()) == found


@pytest.mark.parametrize(('peer', 'package'), [
    ('openpi', 'openpi-client==0.1.2'), ('lerobot', 'lerobot[async]==0.6.1'),
])
def test_an_interpreter_without_the_peer_is_refused(tmp_path, peer, package):
    """The message has the commands that make a right one."""
    for wrong in (sys.executable, tmp_path / 'none'):
        with pytest.raises(BadRequest) as caught:
            find_python(peer, wrong)
        assert how_to_make(peer) in str(caught.value)
        assert package in str(caught.value)
    assert find_python(peer, None) is None


@pytest.mark.parametrize('counts', [{'rounds': 0}, {'calls': 1}])
def test_counts_that_give_no_median_are_refused(tmp_path, counts):
    """Before anything is started."""
    with pytest.raises(BadRequest, match='allowed'):
        run(out=tmp_path, **counts)


def test_a_client_that_hears_no_more_is_named_and_its_server_ended(tmp_path, monkeypatch):
    """The error says which part ended, and nothing is left behind."""
    (tmp_path / 'stand_in.py').write_text(STAND_IN)
    monkeypatch.setenv('PYTHONPATH', str(tmp_path))
    ends = ('stand_in', 'server'), ('stand_in', 'client')

    with pytest.raises(PartDied, match='dummy_client'):
        with Running(Contestant('dummy', this_python(), *ends), tmp_path) as running:
            running.play(1)

    assert not Path(f'/proc/{running.port}').exists()


def test_bytes_are_counted_in_both_directions():
    """Each byte once, and all of them arrive."""
    with socket.create_server(('127.0.0.1', 0)) as listener:
        def answer():
            near, _ = listener.accept()
            with near:
                assert near.recv(1000, socket.MSG_WAITALL) == bytes(1000)
                near.sendall(bytes(70_000))

        thread = threading.Thread(target=answer)
        thread.start()
        with ByteCounter(listener.getsockname()[1]) as counter, socket.create_connection(
            ('127.0.0.1', counter.port)
        ) as client:
            client.sendall(bytes(1000))
            assert len(client.recv(70_000, socket.MSG_WAITALL)) == 70_000
            assert (counter.up, counter.down) == (1000, 70_000)
        thread.join()


def test_a_counter_ends_its_threads_though_both_sides_stay():
    """The client that is counted outlives the counter."""
    before = threading.active_count()
    with socket.create_server(('127.0.0.1', 0)) as listener:
        with ByteCounter(listener.getsockname()[1]) as counter:
            client = socket.create_connection(('127.0.0.1', counter.port))
            near, _ = listener.accept()
        with client, near:
            assert threading.active_count() == before

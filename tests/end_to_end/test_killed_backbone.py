# SPDX-License-Identifier: Apache-2.0
"""Promises about a backbone process that is killed outright (SIGKILL) in the middle of turns."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
import subprocess
import sys
import time

import grpc
from protos import planner_pb2
import pytest

from tests.fakes.raw_client import jpeg, RawClient
from tests.fakes.task_words import entry

pytestmark = pytest.mark.slow
START_S = 120
KILLS = 3


@contextmanager
def process(folder: Path) -> Iterator[tuple[str, 'subprocess.Popen[str]']]:
    """Run a backbone that keeps its sessions in a folder; yield its address."""
    with subprocess.Popen(
        [sys.executable, '-m', 'tests.fakes.backbone_main', str(folder)],
        stdout=subprocess.PIPE, text=True,
    ) as running:
        try:
            assert running.stdout is not None
            yield running.stdout.readline().strip(), running
        finally:
            running.kill()


def memory(known: int, end: int) -> planner_pb2.TaskMemory:
    """Return a memory of so many steps that carries what is not known."""
    entries = [entry(step + 1) for step in range(known, end)]
    return planner_pb2.TaskMemory(trial=1, first_entry=known, entries=entries)


def test_a_killed_process_forgets_nothing_that_it_confirmed(tmp_path: Path) -> None:
    """Whatever was answered is known to the next process, which goes on with the same session."""
    rng, confirmed, session_id, answers = Random(0), 0, '', {}
    for kill in range(KILLS):
        with process(tmp_path) as (address, running), RawClient(address) as client:
            welcome = client.hello(session_id=session_id)
            assert welcome.resumed == bool(kill)
            assert welcome.epoch == kill + 1
            session_id = welcome.session_id
            for turn_id, (turn, plan) in answers.items():
                turn.epoch = welcome.epoch
                assert client.ask(turn).plan == plan, turn_id
            until_s = time.monotonic() + rng.uniform(0.3, 0.8)
            while time.monotonic() < until_s:
                turn = client.turn(
                    turn_id=f'{kill}-{confirmed}', memory=memory(confirmed, confirmed + 1)
                )
                turn.observation.images[0].jpeg = jpeg(seed=confirmed)
                answer = client.ask(turn)
                assert answer.known_entry_count == confirmed + 1
                answers = {turn.turn_id: (turn, answer.plan)}
                confirmed += 1
            # One more is under way while the process dies.
            client.send_turn(client.turn(memory=memory(confirmed, confirmed + 1)))
            time.sleep(rng.uniform(0.0, 0.01))
            running.kill()
            with pytest.raises((grpc.RpcError, StopIteration)):
                while True:
                    client.receive()
    with process(tmp_path) as (address, _), RawClient(address) as client:
        client.hello(session_id=session_id)
        request = planner_pb2.GetSessionStateRequest(session_id=session_id)
        state = client.stub.GetSessionState(request, timeout=10)
        assert state.entry_count in (confirmed, confirmed + 1)

# SPDX-License-Identifier: Apache-2.0
"""Promises to robots that share a backbone: nobody gets what belongs to another.

``TENDON_TURNS`` sets how many turns are asked in all; 10,000 take a minute or two.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
import os
import random
from statistics import median
import subprocess
import sys
import time

from cloud_backbone.config import LimitsConfig
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_client import LinkSettings, PlannerClient
from onboard_decoder.planner_port import Link, Remedy, TurnAnswer, TurnFailure, TurnRequest
import pytest

from tests.fakes.backbone_server import BackboneServer
from tests.fakes.echo_turns import EchoTurns, FACTS, proof
from tests.fakes.raw_client import jpeg, RawClient
from tests.fakes.scripted_backbone import ScriptedBackbone

TURNS = int(os.environ.get('TENDON_TURNS', '2000'))
MANIFEST = load_manifest('tendon_arm')
QUICK = LinkSettings(backoff_first_s=0.01, hello_timeout_s=10.0)
IMAGES = [jpeg(seed=seed) for seed in range(16)]
OPEN_S, ANSWER_S = 30.0, 30.0


@dataclass
class Account:
    """What one robot got."""

    right: int = 0
    swapped: list[str] = field(default_factory=list)
    cancelled: int = 0
    reconnects: int = 0
    asked_again: int = 0


class Robot:
    """Asks turn after turn; withdraws some, and cuts its stream now and then."""

    def __init__(self, name: str, address: str, seed: int) -> None:
        self.name, self._rng, self.account = name, random.Random(seed), Account()
        self.client = PlannerClient(address, name, MANIFEST, QUICK)

    def run(self, turns: int) -> Account:
        """Ask until so many turns are answered or withdrawn."""
        with self.client:
            for number in range(turns):
                self._turn(number)
                if self._rng.random() < 0.005:
                    self._cut()
        return self.account

    def _turn(self, number: int) -> None:
        image = self._rng.choice(IMAGES)
        turn = TurnRequest(
            f'turn-{number}', f'pick thing {self._rng.randrange(1000)}', {'front': image},
            tuple(self._rng.uniform(-1.0, 0.0) for _ in MANIFEST.joints), number + 1, ANSWER_S,
        )
        wanted = proof(
            self.name, turn.turn_id, turn.instruction, turn.observation_epoch,
            turn.joint_positions, image,
        )
        pending = self._asked(turn)
        if self._rng.random() < 0.05:
            time.sleep(self._rng.choice((0.0, 0.0005, 0.002)))
            pending.cancel()
            self.account.cancelled += 1
            return
        while isinstance(result := self._result(pending), TurnFailure):
            assert result.remedy is not Remedy.FIX, result.message
            self.account.asked_again += 1
            pending = self._asked(turn)
        self._judge(result, turn, wanted)

    def _judge(self, answer: TurnAnswer, turn: TurnRequest, wanted: str) -> None:
        """Compare an answer with the one to this turn."""
        certificate = answer.plan.certificate
        is_own = (answer.turn_id, answer.plan.reason) == (turn.turn_id, wanted)
        if is_own and certificate.freshest_epoch == turn.observation_epoch:
            self.account.right += 1
        else:
            self.account.swapped.append(f'{self.name} {turn.turn_id}: {answer}')

    def _asked(self, turn: TurnRequest):
        """Send a turn, as soon as there is a session."""
        deadline_s = time.monotonic() + OPEN_S
        while True:
            assert time.monotonic() < deadline_s, self.client.state().reason
            if self.client.state().link in (Link.READY, Link.SILENT):
                try:
                    return self.client.submit(turn)
                except Exception as error:  # the stream broke in this moment
                    assert 'Unavailable' in type(error).__name__, error
            self.client.news.wait(0.01)
            self.client.news.clear()

    def _result(self, pending):
        deadline_s = time.monotonic() + ANSWER_S
        while (result := pending.poll()) is None:
            assert time.monotonic() < deadline_s, 'no answer'
            self.client.news.wait(0.005)
            self.client.news.clear()
        return result

    def _cut(self) -> None:
        """Break the stream under the client, as a bad network would."""
        stream = self.client._stream
        if stream is not None:
            stream._call.cancel()
            self.account.reconnects += 1


def served(limits: LimitsConfig | None = None):
    """Return the real server with the echo behind it, and the echo."""
    echo = EchoTurns()
    return BackboneServer(object(), limits, facts=FACTS, planner_of=lambda _: echo), echo


@pytest.mark.parametrize('robots', [2, 8])
def test_no_turn_is_ever_answered_with_that_of_another(robots):
    """Each answer is made of the asker's own words, joints and image, and of that very turn."""
    server, echo = served()
    with server, ThreadPoolExecutor(robots) as pool:
        crowd = [Robot(f'robot-{n}', server.address, seed=n) for n in range(robots)]
        accounts = list(pool.map(lambda robot: robot.run(TURNS // robots), crowd))

    assert [account.swapped for account in accounts] == [[]] * robots
    for account in accounts:
        assert account.right + account.cancelled == TURNS // robots
        assert account.cancelled > 0
    assert sum(account.reconnects for account in accounts) > 0
    assert max(echo.batches) > 1


def test_a_ninth_robot_is_served_beside_eight_that_are_stuck():
    """Clients that open a stream, ask, and never read do not hold up the next one."""
    server, _ = served()
    stuck = []
    with server:
        try:
            for _ in range(8):
                client = RawClient(server.address)
                stuck.append(client)
                client.hello(robot_id=f'stuck-{len(stuck)}')
                for number in range(3):
                    client.send_turn(client.turn(turn_id=f't{number}'))
            account = Robot('ninth', server.address, seed=9).run(20)
        finally:
            for client in stuck:
                client.close()

    assert account.right + account.cancelled == 20
    assert not account.swapped


def test_a_robot_too_many_is_told_so():
    """One more than there is room for gets a reason, not silence."""
    server, _ = served(LimitsConfig(max_sessions=8))
    with server:
        clients = [RawClient(server.address) for _ in range(8)]
        try:
            for number, client in enumerate(clients):
                client.hello(robot_id=f'robot-{number}')
            with PlannerClient(server.address, 'ninth', MANIFEST, QUICK) as ninth:
                deadline_s = time.monotonic() + OPEN_S
                while 'RESOURCE_EXHAUSTED' not in ninth.state().reason:
                    assert time.monotonic() < deadline_s, ninth.state().reason
                    time.sleep(0.01)
        finally:
            for client in clients:
                client.close()


def test_a_second_session_opens_without_loading_anything():
    """On a loaded model it costs a small part of the model's start, and runs nothing."""
    backbone = ScriptedBackbone(delay_s=0.05)
    began_s = time.monotonic()
    with BackboneServer(backbone) as server:
        start_s, runs = time.monotonic() - began_s, len(backbone.batches)
        opened_s = []
        for number in range(5):
            began_s = time.monotonic()
            with RawClient(server.address) as client:
                client.hello(robot_id=f'robot-{number}')
                opened_s.append(time.monotonic() - began_s)

    assert median(opened_s) < start_s / 3
    assert len(backbone.batches) == runs


def test_importing_the_client_changes_no_logger():
    """Neither the root's level and handlers, nor anybody else's."""
    code = (
        'import logging\n'
        'before = (logging.root.level, list(logging.root.handlers), logging.root.disabled)\n'
        'logging.getLogger("other").setLevel(7)\n'
        'import onboard_decoder.planner_client, onboard_decoder.runtime\n'
        'other = logging.getLogger("other")\n'
        'assert before == (logging.root.level, logging.root.handlers, logging.root.disabled)\n'
        'assert (other.level, other.handlers, other.propagate) == (7, [], True)\n'
        'named = [n for n, l in logging.root.manager.loggerDict.items()\n'
        '         if "onboard_decoder" in n and (getattr(l, "level", 0) or getattr(l, '
        '"handlers", []))]\n'
        'assert not named, named\n'
    )
    done = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr

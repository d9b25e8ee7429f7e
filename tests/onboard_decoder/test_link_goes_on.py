# SPDX-License-Identifier: Apache-2.0
"""Promises about a link in which something goes wrong that nobody has thought of."""

from onboard_decoder import planner_stream
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_client import LinkSettings, PlannerClient
from onboard_decoder.planner_port import Link, TurnAnswer, TurnFailure
import pytest

from tests.fakes.scripted_planner import plan_of, ScriptedPlanner, step
from tests.onboard_decoder.test_planner_client import result_of, turn, wait_for

MANIFEST = load_manifest('tendon_arm')
QUICK = LinkSettings(hello_timeout_s=2.0, silence_s=0.5, dead_after_s=1.0)


@pytest.fixture
def planner():
    """A scripted backbone."""
    with ScriptedPlanner([plan_of(step('reach', (0.4, 0.0, 0.2)))]) as planner:
        yield planner


@pytest.fixture
def client(planner):
    """A client with a session at it."""
    with PlannerClient(planner.address, 'robot-1', MANIFEST, QUICK) as client:
        wait_for(lambda: client.state().link is Link.READY)
        yield client


def once(function):
    """Return a function that raises at its first call."""
    is_first = [True]

    def failing(*args, **named):
        if is_first.pop() if is_first else False:
            raise RuntimeError('nobody has thought of it')
        return function(*args, **named)

    return failing


def test_an_answer_that_cannot_be_read_ends_the_stream_and_not_the_link(client, monkeypatch):
    """The turn fails, another session is opened, and the next turn is answered."""
    monkeypatch.setattr(planner_stream.wire, 'from_answer', once(planner_stream.wire.from_answer))
    failure = result_of(client.submit(turn('t1')))
    wait_for(lambda: client.session_count == 2)

    assert isinstance(failure, TurnFailure)
    assert failure.reason == 'link_broken'
    assert isinstance(result_of(client.submit(turn('t2'))), TurnAnswer)


def test_a_ping_that_fails_does_not_end_the_pings(client, planner, monkeypatch):
    """Silence is still heard afterwards, and another connection opened."""
    failing = once(client._meter.quality)
    monkeypatch.setattr(client._meter, 'quality', failing)
    wait_for(lambda: client.state().quality.round_trip_s is not None)

    planner.hush()

    wait_for(lambda: client.state().link is not Link.READY)
    planner.speak()
    wait_for(lambda: client.state().link is Link.READY)


def test_a_turn_that_is_asked_while_its_stream_ends_fails_at_once(client):
    """Whoever asks may have looked at the stream before it ended."""
    stream = client._stream
    stream.end('cut')

    failure = stream.submit(turn('t1')).poll()

    assert isinstance(failure, TurnFailure)
    assert failure.reason == 'link_broken'

# SPDX-License-Identifier: Apache-2.0
"""A client, a real server that answers with plans, and every way in which it can say nothing."""

from contextlib import ExitStack
import re
import threading
import time

from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_client import LinkSettings, PlannerClient
from onboard_decoder.planner_port import Link, Remedy, TurnAnswer
from onboard_decoder.planner_stream import PlannerStream
from protos import planner_pb2
import pytest
from tendon.bench_faults.cable import Cable

from tests.fakes.scripted_planner import plan_of, ScriptedPlanner, step
from tests.onboard_decoder.test_planner_client import result_of, turn, wait_for

MANIFEST = load_manifest('tendon_arm')
REACH = plan_of(step('reach', (0.4, 0.0, 0.2)))


class Watched:
    """Notes every state of a client's link, in order."""

    def __init__(self, client):
        self.links, self._client, self._over = [], client, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self):
        while not self._over.wait(0.005):
            link = self._client.state().link
            if not self.links or self.links[-1] is not link:
                self.links.append(link)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._over.set()
        self._thread.join()


@pytest.fixture
def planner():
    """A scripted backbone."""
    with ScriptedPlanner([REACH]) as planner:
        yield planner


@pytest.fixture
def patient(planner):
    """A client with a session, that stays with a connection however long it is silent."""
    with PlannerClient(
        planner.address, 'robot-1', MANIFEST, LinkSettings(dead_after_s=60.0)
    ) as client:
        wait_for(lambda: client.state().link is Link.READY)
        yield client


def silence_in(reason):
    """Return how long [s] it was, according to the sentence."""
    return float(re.search(r'has said nothing for (\S+) s$', reason)[1])


def test_a_silent_backbone_is_seen_and_the_sentence_says_for_how_long(planner, patient):
    """And it is ready again with its first word, in the same session."""
    planner.hush()
    wait_for(lambda: patient.state().link is Link.SILENT)
    first = patient.state()
    time.sleep(0.3)
    later = patient.state()
    planner.speak()
    wait_for(lambda: patient.state().link is Link.READY)

    assert silence_in(later.reason) > silence_in(first.reason) > 0.2
    assert first.grant is not None
    assert patient.session_count == 1


def test_a_silent_backbone_still_answers_the_turn_that_it_has(planner, patient):
    """The deadline of a turn decides on it, not the silence."""
    planner.hush()
    pending = patient.submit(turn())
    wait_for(lambda: patient.state().link is Link.SILENT)
    assert pending.poll() is None
    planner.speak()

    assert isinstance(result_of(pending), TurnAnswer)


def test_a_backbone_that_plans_for_long_is_not_silent(planner):
    """A model that stalls keeps its connection; the turn is late, the link is ready."""
    planner.freeze()
    settings = LinkSettings(silence_s=1.0, dead_after_s=1.5)  # both are over while it stalls
    with PlannerClient(planner.address, 'robot-1', MANIFEST, settings) as client:
        wait_for(lambda: client.state().link is Link.READY)
        with Watched(client) as watched:
            pending = client.submit(turn(deadline_s=60.0))
            time.sleep(3.0)
            planner.thaw()
            answer = result_of(pending)
        wait_for(lambda: (client.state().quality.answer_s or 0.0) >= 2.9)

    assert isinstance(answer, TurnAnswer)
    assert watched.links == [Link.READY]
    assert client.session_count == 1


def test_a_connection_that_stays_silent_is_replaced(planner):
    """Turns on it fail with the reason; the session is resumed on another connection."""
    settings = LinkSettings(dead_after_s=1.0)
    with PlannerClient(planner.address, 'robot-1', MANIFEST, settings) as client:
        wait_for(lambda: client.state().link is Link.READY)
        planner.hush()
        pending = client.submit(turn(deadline_s=60.0))
        failure = result_of(pending)
        planner.speak()
        wait_for(lambda: client.state().link is Link.READY)

        assert failure.remedy is Remedy.REOPEN
        assert 'opening another connection' in failure.message
        assert planner.hellos[-1].session_id == client.state().grant.session_id
        assert isinstance(result_of(client.submit(turn('t2'))), TurnAnswer)


def test_a_cable_that_is_cut_shows_as_silence_and_a_mended_one_as_a_session(planner):
    """Half-open: no FIN, no reset. The state is never ready while nothing passes."""
    host, port = planner.address.split(':')
    with Cable((host, int(port))) as cable, PlannerClient(
        cable.address, 'robot-1', MANIFEST
    ) as client:
        wait_for(lambda: client.state().link is Link.READY)
        cable.cut()
        wait_for(lambda: client.state().link is Link.SILENT)
        with Watched(client) as watched:
            time.sleep(2.5)
            during = list(watched.links)
            cable.mend()
            wait_for(lambda: client.state().link is Link.READY)
        answer = result_of(client.submit(turn()))

    assert Link.READY not in during
    assert Link.DEGRADED in during
    assert isinstance(answer, TurnAnswer)


def test_a_stream_that_breaks_is_not_ready_for_a_moment_more(planner, monkeypatch):
    """However long its end takes: a step that begins then would begin without a server."""
    end = PlannerStream.end
    monkeypatch.setattr(
        PlannerStream, 'end', lambda self, why: (time.sleep(0.3), end(self, why)))
    host, port = planner.address.split(':')
    with ExitStack() as ends:
        cable = ends.enter_context(Cable((host, int(port))))
        with PlannerClient(cable.address, 'robot-1', MANIFEST) as client:
            wait_for(lambda: client.state().link is Link.READY)
            cable.cut()
            wait_for(lambda: client.state().link is Link.SILENT)
            with Watched(client) as watched:
                ends.close()  # both connections are closed, and nothing else passes
                wait_for(lambda: Link.DEGRADED in watched.links)
                time.sleep(0.6)

    assert Link.READY not in watched.links


def test_an_idle_stream_lives(planner, monkeypatch):
    """More than five seconds without a message of ours: keepalive alone must not end it."""
    monkeypatch.setattr(
        planner, '_welcome', lambda hello, made=planner._welcome: _without_pings(made(hello)))
    with PlannerClient(planner.address, 'robot-1', MANIFEST) as client:
        wait_for(lambda: client.state().link is Link.READY)
        with Watched(client) as watched:
            time.sleep(6.5)
        assert watched.links == [Link.READY]
        assert client.session_count == 1
        assert client.state().quality.round_trip_s is None


def _without_pings(welcome: planner_pb2.Welcome) -> planner_pb2.Welcome:
    """Return the welcome of a backbone that answers no pings."""
    welcome.answers_pings = False
    return welcome


def test_the_quality_of_the_link_is_known_while_it_is_used(planner, patient):
    """Round trips, answers and uplink are measured; nothing is asked for it."""
    planner.delay_s = 0.1
    for number in range(3):
        assert isinstance(result_of(patient.submit(turn(f't{number}'))), TurnAnswer)
    wait_for(lambda: (patient.state().quality.answer_s or 0.0) >= 0.1)
    wait_for(lambda: patient.state().quality.bytes_per_s)
    quality = patient.state().quality

    assert 0.0 < quality.round_trip_s <= quality.round_trip_worst_s
    assert len(planner.turns) == 3


def test_a_turn_without_an_answer_counts_by_its_deadline(planner, patient):
    """A backbone that never answers does not look fast."""
    planner.freeze()
    failure = result_of(patient.submit(turn(deadline_s=0.3)))

    assert failure.reason == 'deadline_passed'
    wait_for(lambda: (patient.state().quality.answer_s or 0.0) >= 0.3)


def test_late_answers_of_an_older_session_are_dropped(planner):
    """A turn of the old connection never answers one of the new, whatever its name."""
    with PlannerClient(
        planner.address, 'robot-1', MANIFEST, LinkSettings(dead_after_s=1.0)
    ) as client:
        wait_for(lambda: client.state().link is Link.READY)
        planner.freeze()
        pending = client.submit(turn('same', deadline_s=60.0))
        planner.hush()
        assert result_of(pending).remedy is Remedy.REOPEN
        planner.speak()
        planner.thaw()  # the answer is given now, to a connection that is gone
        wait_for(lambda: client.state().link is Link.READY)
        failure = pending.poll()
        answer = result_of(client.submit(turn('same')))

    assert failure.reason == 'link_broken'
    assert isinstance(answer, TurnAnswer)
    assert pending.poll() is failure

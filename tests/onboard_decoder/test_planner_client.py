# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
import socket
import subprocess
import sys
import threading
import time

import grpc
from onboard_decoder.errors import PlannerUnavailable, SettingsError
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.plan import Outcome, Skill
from onboard_decoder.planner_client import LinkSettings, PlannerClient
from onboard_decoder.planner_port import Link, Remedy, TurnAnswer, TurnFailure, TurnRequest
from protos import planner_pb2
import pytest

from tests.fakes.scripted_planner import plan_of, ScriptedPlanner, step

MANIFEST = load_manifest('tendon_arm')
QUICK = LinkSettings(hello_timeout_s=1.0, lost_after_s=0.3, refused_backoff_s=0.2)
REACH = plan_of(step('reach', (0.4, 0.0, 0.2)), latent=[0.5, 1.0])


def wait_for(condition: Callable[[], object], timeout_s: float = 20.0) -> None:
    """Wait until something holds."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, 'it did not come'
        time.sleep(0.002)


def turn(turn_id: str = 't1', deadline_s: float = 10.0, jpeg: bytes = b'jpeg') -> TurnRequest:
    """Return a question."""
    return TurnRequest(turn_id, 'pick it', {'front': jpeg}, (0.0,) * 7, 1, deadline_s)


def result_of(pending) -> TurnAnswer | TurnFailure:
    """Wait for the result of a turn."""
    wait_for(lambda: pending.poll() is not None)
    return pending.poll()


@pytest.fixture
def planner():
    """A scripted backbone."""
    with ScriptedPlanner([REACH], latent_size=2) as planner:
        yield planner


@pytest.fixture
def client(planner):
    """A client with a session at it."""
    with PlannerClient(planner.address, 'robot-1', MANIFEST, QUICK) as client:
        wait_for(lambda: client.state().link is Link.READY)
        yield client


def test_the_hello_describes_the_robot(planner, client):
    """Joints, limits, cameras and workspace of the manifest reach the backbone."""
    embodiment = planner.hellos[0].embodiment

    assert [joint.name for joint in embodiment.joints] == list(MANIFEST.joint_names)
    assert embodiment.joints[0].max_jerk == 60.0
    assert embodiment.cameras[0].camera_to_base.w == pytest.approx(-0.23149713)
    assert planner.hellos[0].robot_id == 'robot-1'
    assert client.state().grant.image_width_px == 128


def test_a_turn_is_answered_with_a_plan_and_the_backbones_durations(planner, client):
    """Steps, latent and stages arrive; the answer came after the question."""
    answer = result_of(client.submit(turn()))

    assert isinstance(answer, TurnAnswer)
    assert answer.plan.outcome is Outcome.STEPS
    assert answer.plan.steps[0].skill is Skill.REACH
    assert answer.plan.latent == (0.5, 1.0)
    assert set(answer.backbone_ns) >= {'queue', 'decode'}
    assert answer.received_ns > answer.sent_ns
    assert planner.turns[0].observation.images[0].jpeg == b'jpeg'


def test_a_refused_turn_says_what_to_do(planner, client):
    """The reason and the remedy of the backbone reach the caller."""
    error = planner_pb2.TurnError(
        reason=planner_pb2.ERROR_REASON_BAD_INSTRUCTION,
        remedy=planner_pb2.REMEDY_FIX_REQUEST,
        message='instruction is empty',
    )
    with ScriptedPlanner([error]) as refusing, PlannerClient(
        refusing.address, 'robot-1', MANIFEST, QUICK
    ) as client:
        wait_for(lambda: client.state().link is Link.READY)
        failure = result_of(client.submit(turn()))

    assert isinstance(failure, TurnFailure)
    assert (failure.reason, failure.remedy) == ('bad_instruction', Remedy.FIX)
    assert failure.message == 'instruction is empty'


@pytest.mark.parametrize('broken', [
    step('reach', (float('nan'), 0.0, 0.2)),
    step('reach'),
    step('reach', (0.4, 0.0, 0.2), speed=0.0),
    step('reach', (0.4, 0.0, 0.2), gripper_opening=1.5),
    step('unspecified', (0.4, 0.0, 0.2)),
])
def test_a_plan_that_breaks_the_contract_is_a_failure(broken):
    """What the robot must not execute never becomes a plan."""
    with ScriptedPlanner([plan_of(broken)]) as planner, PlannerClient(
        planner.address, 'robot-1', MANIFEST, QUICK
    ) as client:
        wait_for(lambda: client.state().link is Link.READY)
        failure = result_of(client.submit(turn()))

    assert isinstance(failure, TurnFailure)
    assert failure.reason == 'bad_plan'


def test_a_late_turn_fails_at_its_deadline_and_its_answer_is_dropped(planner, client):
    """The deadline decides; the backbone is told; the session lives on."""
    planner.freeze()
    pending = client.submit(turn('late', deadline_s=0.05))

    failure = result_of(pending)

    assert (failure.reason, failure.remedy) == ('deadline_passed', Remedy.RETRY)
    wait_for(lambda: planner.cancelled == ['late'])
    planner.thaw()
    assert result_of(client.submit(turn('next'))).turn_id == 'next'
    assert pending.poll() is failure


def test_a_cancelled_turn_never_answers(planner, client):
    """Its answer is dropped by id."""
    planner.freeze()
    pending = client.submit(turn('gone'))
    pending.cancel()
    planner.thaw()

    assert result_of(client.submit(turn('next'))).turn_id == 'next'
    assert pending.poll() is None


def test_a_killed_backbone_fails_the_turn_and_the_session_comes_back(planner, client):
    """Turns fail at once, the state says so, and after the restart a new session opens."""
    planner.delay_s = 2.0
    pending = client.submit(turn())

    planner.kill()

    failure = result_of(pending)
    assert failure.remedy is Remedy.REOPEN
    wait_for(lambda: client.state().link is Link.DEGRADED)
    with pytest.raises(PlannerUnavailable):
        client.submit(turn('t2'))
    wait_for(lambda: client.state().link is Link.LOST)
    assert 'tendon serve' in client.state().reason
    planner.delay_s = 0.0
    planner.start()
    wait_for(lambda: client.state().link is Link.READY)
    assert planner.hellos[-1].session_id  # it asked for its old session
    assert isinstance(result_of(client.submit(turn('t3'))), TurnAnswer)


def test_a_turn_that_is_too_large_is_not_sent(planner, client):
    """The size, the limit and the remedy are named; the link is untouched."""
    failure = result_of(client.submit(turn(jpeg=bytes(2 * 1024 * 1024))))

    assert (failure.reason, failure.remedy) == ('too_large', Remedy.FIX)
    assert 'smaller images' in failure.message
    assert isinstance(result_of(client.submit(turn('t2'))), TurnAnswer)
    assert len(planner.turns) == 1


def test_nothing_listening_is_said_in_one_sentence():
    """A wrong port names the address and the command that helps."""
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        address = f'127.0.0.1:{free.getsockname()[1]}'
    with PlannerClient(address, 'robot-1', MANIFEST, QUICK) as client:
        wait_for(lambda: client.state().link is Link.LOST)
        reason = client.state().reason

    assert reason == f'nothing listens at {address}; start the backbone there with "tendon serve"'


def test_another_grpc_server_is_recognised():
    """A server without our service is no backbone, and trying often would not help."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port('127.0.0.1:0')
    server.start()
    with PlannerClient(f'127.0.0.1:{port}', 'robot-1', MANIFEST, QUICK) as client:
        wait_for(lambda: client.state().link is Link.LOST)
        reason = client.state().reason
    server.stop(None)

    assert 'no Tendon backbone' in reason


def test_a_silent_port_is_recognised():
    """Something that accepts and says nothing does not block for ever."""
    with socket.create_server(('127.0.0.1', 0)) as listener:
        address = f'127.0.0.1:{listener.getsockname()[1]}'
        with PlannerClient(address, 'robot-1', MANIFEST, QUICK) as client:
            wait_for(lambda: client.state().link is Link.LOST)
            reason = client.state().reason

    assert address in reason


def test_a_refused_hello_gives_the_backbones_own_words(monkeypatch):
    """Both sides' versions are in the reason."""
    monkeypatch.setattr('onboard_decoder.wire.PROTOCOL_VERSION', 99)
    with ScriptedPlanner() as planner, PlannerClient(
        planner.address, 'robot-1', MANIFEST, QUICK
    ) as client:
        wait_for(lambda: client.state().link is Link.LOST)
        reason = client.state().reason

    assert 'refused this robot' in reason
    assert '99' in reason


def test_a_robot_id_that_no_backbone_takes_is_refused_at_once():
    """Before anything is opened."""
    with pytest.raises(SettingsError, match='robot_id'):
        PlannerClient('127.0.0.1:1', 'a robot', MANIFEST)


def test_close_ends_session_and_threads(planner):
    """Nothing is left running, whether or not there was a session."""
    before = set(threading.enumerate())
    client = PlannerClient(planner.address, 'robot-1', MANIFEST, QUICK)
    wait_for(lambda: client.state().link is Link.READY)

    client.close()
    client.close()

    assert client.state().link is Link.CLOSED
    ours = [t for t in set(threading.enumerate()) - before if t.name == 'planner-link']
    assert not ours
    assert not planner._stored


@pytest.mark.parametrize('listening', [True, False])
def test_a_process_that_forgets_to_close_still_ends(planner, listening):
    """No hang at the exit of the interpreter."""
    address = planner.address if listening else '127.0.0.1:1'
    code = (
        'from onboard_decoder.planner_client import PlannerClient\n'
        'from onboard_decoder.manifest_yaml import load_manifest\n'
        'import time\n'
        f'c = PlannerClient("{address}", "r", load_manifest("tendon_arm"))\n'
        'time.sleep(0.3)\n'
    )

    done = subprocess.run([sys.executable, '-c', code], timeout=60, capture_output=True)

    assert done.returncode == 0, done.stderr

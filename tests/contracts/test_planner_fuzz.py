# SPDX-License-Identifier: Apache-2.0
"""Whatever bytes a robot sends, the backbone answers with a plan, an error or a status."""

from collections.abc import Iterator

import grpc
from hypothesis import given, HealthCheck, settings
from hypothesis import strategies as st
from protos import planner_pb2
from protos.protocol import PROTOCOL_VERSION
import pytest

from tests.fakes.backbone_server import BackboneServer
from tests.fakes.raw_client import embodiment, jpeg, RawClient
from tests.fakes.scripted_backbone import ScriptedBackbone

SESSION = '/tendon.v1.Planner/Session'
NUMBERS = st.one_of(st.floats(), st.sampled_from([0.0, float('nan'), float('inf'), -1e308]))
INTEGERS = st.integers(-(2**31), 2**31 - 1)
WORDS = st.one_of(st.text(max_size=40), st.sampled_from(['', '<042>', '<image>', 'pick it', '\0']))


@pytest.fixture(scope='module')
def address() -> Iterator[str]:
    """Serve a scripted model; at the end a well-behaved robot must still be served."""
    with BackboneServer(ScriptedBackbone()) as server:
        yield server.address
        with RawClient(server.address) as client:
            client.hello()
            assert client.ask().WhichOneof('result') == 'plan'


def hello() -> planner_pb2.SessionRequest:
    """Return a right hello."""
    message = planner_pb2.Hello(
        robot_id='r', protocol_version=PROTOCOL_VERSION, embodiment=embodiment()
    )
    return planner_pb2.SessionRequest(hello=message)


@st.composite
def turns(draw: st.DrawFn) -> planner_pb2.SessionRequest:
    """Return a turn that is right or wrong in any of its parts."""
    whole = jpeg()
    images = st.sampled_from([whole, whole[:-9], b'', whole[:60] + bytes(9) + whole[69:]])
    image = planner_pb2.CameraImage(
        camera=draw(st.sampled_from(['front', 'rear', ''])),
        jpeg=draw(st.one_of(images, st.binary(max_size=50))),
    )
    joints = st.lists(NUMBERS, min_size=0, max_size=6)
    observation = planner_pb2.Observation(
        observation_epoch=draw(INTEGERS),
        images=[image] * draw(st.integers(0, 2)),
        joint_positions=draw(st.one_of(st.just([0.0] * 4), joints)),
    )
    turn = planner_pb2.Turn(
        turn_id=draw(WORDS),
        epoch=draw(st.one_of(st.just(1), INTEGERS)),
        instruction=draw(WORDS),
        observation=observation,
        deadline_ms=draw(st.one_of(st.just(0), INTEGERS)),
    )
    return planner_pb2.SessionRequest(turn=turn)


@st.composite
def hellos(draw: st.DrawFn) -> planner_pb2.SessionRequest:
    """Return a hello with some wrong values."""
    message = hello()
    arm = message.hello.embodiment
    places = [
        (arm.joints[0], 'lower'), (arm.joints[1], 'max_velocity'), (arm, 'control_period_s'),
        (arm.cameras[0], 'vertical_fov_rad'), (arm.cameras[0].camera_in_base_m, 'x'),
        (arm.cameras[0].camera_to_base, 'y'), (arm.workspace.upper_m, 'z'),
        (arm, 'table_height_m'),
    ]  # fmt: skip
    for place, name in draw(st.lists(st.sampled_from(places), max_size=3)):
        setattr(place, name, draw(NUMBERS))
    message.hello.robot_id = draw(WORDS)
    message.hello.cache_budget_bytes = draw(INTEGERS)
    message.hello.session_id = draw(WORDS)
    return message


def talk(address: str, frames: list[bytes]) -> list[planner_pb2.SessionResponse]:
    """Send raw frames; return the answers. The call may end with any status but UNKNOWN."""
    answers: list[planner_pb2.SessionResponse] = []
    with grpc.insecure_channel(address, options=[('grpc.enable_http_proxy', 0)]) as channel:
        call = channel.stream_stream(
            SESSION, None, planner_pb2.SessionResponse.FromString
        )(iter(frames), timeout=20)
        try:
            answers.extend(call)
        except grpc.RpcError as error:
            assert error.code() not in (
                grpc.StatusCode.UNKNOWN,
                grpc.StatusCode.DEADLINE_EXCEEDED,
                grpc.StatusCode.UNAVAILABLE,
            ), error.details()
    return answers


few = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@few
@given(st.lists(turns(), min_size=1, max_size=3))
def test_any_turns_are_answered(address: str, messages: list[planner_pb2.SessionRequest]) -> None:
    """After a right hello every turn gets a plan or an error with reason and remedy."""
    frames = [message.SerializeToString() for message in (hello(), *messages)]
    welcome, *answers = talk(address, frames)
    assert welcome.WhichOneof('message') == 'welcome'
    assert len(answers) == len(messages)
    for answer in answers:
        if answer.turn_answer.WhichOneof('result') == 'error':
            error = answer.turn_answer.error
            assert error.reason != planner_pb2.ERROR_REASON_INTERNAL
            assert error.remedy
            assert error.message


@few
@given(hellos())
def test_any_hello_is_a_welcome_or_a_status(
    address: str, message: planner_pb2.SessionRequest
) -> None:
    """A hello with any values opens a session or is refused."""
    talk(address, [message.SerializeToString()])


@few
@given(st.binary(max_size=200), st.integers(0, 400), st.binary(min_size=1, max_size=20))
def test_any_bytes_end_with_a_status(
    address: str, noise: bytes, place: int, patch: bytes
) -> None:
    """Bytes that are no message, or a damaged one, cost their call and nothing else."""
    whole = hello().SerializeToString()
    talk(address, [noise])
    talk(address, [whole[:place] + patch + whole[place + len(patch) :]])
    talk(address, [whole, noise])

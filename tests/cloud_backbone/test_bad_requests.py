# SPDX-License-Identifier: Apache-2.0
"""Promises about wrong requests: each is answered with its reason, the value and the remedy."""

import math
import re

from google.protobuf.message import Message
import grpc
from protos import planner_pb2
from protos.protocol import MAX_INSTRUCTION_CHARS
import pytest

from tests.contracts.planner_contract import reason_of
from tests.fakes.backbone_server import BackboneServer
from tests.fakes.raw_client import embodiment, jpeg, RawClient


def observation(**fields: object) -> planner_pb2.Observation:
    """Return an observation that fits the test arm, with these fields changed."""
    image = planner_pb2.CameraImage(camera='front', jpeg=jpeg(128, 128))
    values = {'observation_epoch': 5, 'images': [image], 'joint_positions': [0.0] * 4, **fields}
    return planner_pb2.Observation(**values)  # type: ignore[arg-type]


def picture(data: bytes, camera: str = 'front') -> dict[str, Message]:
    """Return the fields of a turn with this image."""
    image = planner_pb2.CameraImage(camera=camera, jpeg=data)
    return {'observation': observation(images=[image])}


BAD_TURNS = [
    ({'instruction': ''}, 'BAD_INSTRUCTION', 'has no word in it'),
    ({'instruction': ' ?! '}, 'BAD_INSTRUCTION', 'has no word in it'),
    ({'instruction': 'a' * 10_000}, 'BAD_INSTRUCTION', f'10000 .* 1 to {MAX_INSTRUCTION_CHARS}'),
    (picture(jpeg(64, 128)), 'BAD_IMAGE', '64 x 128 px, this backbone wants 128 x 128'),
    (picture(jpeg()[:-30]), 'BAD_IMAGE', 'is truncated'),
    (picture(b''), 'BAD_IMAGE', 'is empty'),
    (picture(b'hello'), 'BAD_IMAGE', 'is no JPEG'),
    (picture(jpeg(), camera='rear'), 'BAD_IMAGE', "no image of camera 'front'.*: rear"),
    ({'observation': observation(images=[])}, 'BAD_IMAGE', 'images are of: none'),
    ({'observation': observation(joint_positions=[0.0])}, 'BAD_JOINTS', '1 joint positions.*4'),
    (
        {'observation': observation(joint_positions=[0.0, math.nan, 0.0, 0.0])},
        'BAD_JOINTS',
        'joint lift is at nan, must be finite',
    ),
    ({'turn_id': ''}, 'PROTOCOL_ORDER', 'turn_id has 0 characters, allowed 1 to 128'),
]


@pytest.mark.parametrize(('fields', 'reason', 'message'), BAD_TURNS)
def test_bad_turn_is_an_answer_that_says_what_to_fix(
    client: RawClient, fields: dict[str, object], reason: str, message: str
) -> None:
    """A wrong turn is answered with reason, value and allowed values; the stream lives on."""
    error = client.ask(client.turn(**fields)).error  # type: ignore[arg-type]
    assert planner_pb2.ErrorReason.Name(error.reason) == f'ERROR_REASON_{reason}'
    assert error.remedy == planner_pb2.REMEDY_FIX_REQUEST
    assert re.search(message, error.message)
    assert client.ask().WhichOneof('result') == 'plan'


def changed(path: str, value: object) -> object:
    """Return the test arm with one value changed; ``path`` may index repeated fields."""
    arm = embodiment()
    place: object = arm
    *parents, name = path.split('.')
    for parent in parents:
        place = place[int(parent)] if parent.isdigit() else getattr(place, parent)  # type: ignore[index]
    setattr(place, name, value)
    return arm


BAD_HELLOS = [
    ({'robot_id': 'a b'}, 'BAD_EMBODIMENT', "robot_id is 'a b', allowed are"),
    ({'cache_policy': 'kivi'}, 'BAD_CACHE_POLICY', "wants cache policy 'kivi'.*knows full"),
    ({'cache_budget_bytes': 7}, 'BAD_CACHE_POLICY', 'allows 7 bytes.*needs [0-9]{3,}'),
    ({'cache_budget_bytes': -7}, 'BAD_CACHE_POLICY', 'allows -7 bytes'),
    ({'embodiment': changed('joints.1.name', 'pan')}, 'BAD_EMBODIMENT', 'joint names repeat'),
    ({'embodiment': changed('joints.0.unit', 0)}, 'BAD_EMBODIMENT', "'pan' has unit 0"),
    ({'embodiment': changed('joints.0.lower', 9.0)}, 'BAD_EMBODIMENT', 'limits 9.0 to 3.0'),
    ({'embodiment': changed('gripper.joint', 'x')}, 'BAD_EMBODIMENT', "'x' is not among"),
    ({'embodiment': changed('cameras.0.vertical_fov_rad', 4.0)}, 'BAD_EMBODIMENT', 'view of 4.0'),
    ({'embodiment': changed('cameras.0.width_px', 0)}, 'BAD_EMBODIMENT', '0 x 256 px'),
    ({'embodiment': changed('cameras.0.camera_to_base.w', 3.0)}, 'BAD_EMBODIMENT', 'norm 3.16'),
    ({'embodiment': changed('workspace.upper_m.x', 0.0)}, 'BAD_EMBODIMENT', 'must be lower'),
    ({'embodiment': changed('table_height_m', math.inf)}, 'BAD_EMBODIMENT', 'table height is inf'),
]


@pytest.mark.parametrize(('fields', 'reason', 'message'), BAD_HELLOS)
def test_bad_hello_ends_the_call_with_both_sides_values(
    server: BackboneServer, fields: dict[str, object], reason: str, message: str
) -> None:
    """What this backbone cannot serve is refused at the hello, not at the first turn."""
    with RawClient(server.address) as client:
        with pytest.raises(grpc.RpcError, match=message) as caught:
            client.hello(**fields)
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert reason_of(caught.value) == f'ERROR_REASON_{reason}'

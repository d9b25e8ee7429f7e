# SPDX-License-Identifier: Apache-2.0
"""The smallest client of the wire: says hello, sends messages, reads answers. Synchronous."""

from __future__ import annotations

from collections.abc import Iterator
import itertools
import queue
from types import TracebackType

import cv2
import grpc
import numpy as np
from protos import embodiment_pb2, planner_pb2, planner_pb2_grpc
from protos.protocol import CLIENT_OPTIONS, PROTOCOL_VERSION

TIMEOUT_S = 60.0


def embodiment() -> embodiment_pb2.Embodiment:
    """Return an arm with three joints, a gripper, and a camera that looks down at the table."""
    made = embodiment_pb2.Embodiment(name='test_arm', control_period_s=0.02, table_height_m=0.0)
    for name in ('pan', 'lift', 'elbow'):
        made.joints.add(
            name=name,
            unit=embodiment_pb2.JOINT_UNIT_RADIAN,
            lower=-3.0,
            upper=3.0,
            max_velocity=1.5,
            max_acceleration=5.0,
            max_jerk=50.0,
        )
    made.joints.add(
        name='finger',
        unit=embodiment_pb2.JOINT_UNIT_METRE,
        lower=0.0,
        upper=0.04,
        max_velocity=0.1,
        max_acceleration=1.0,
        max_jerk=20.0,
    )
    made.gripper.joint, made.gripper.open_position = 'finger', 0.04
    camera = made.cameras.add(name='front', width_px=256, height_px=256, vertical_fov_rad=0.6283)
    camera.camera_in_base_m.x, camera.camera_in_base_m.z = 0.45, 1.0
    camera.camera_to_base.w, camera.camera_to_base.x = 0.0, 1.0
    made.workspace.lower_m.x, made.workspace.lower_m.y, made.workspace.lower_m.z = 0.1, -0.5, 0.0
    made.workspace.upper_m.x, made.workspace.upper_m.y, made.workspace.upper_m.z = 0.8, 0.5, 0.75
    return made


def jpeg(width: int = 128, height: int = 128, seed: int = 0) -> bytes:
    """Return a JPEG of smooth noise."""
    small = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    ok, data = cv2.imencode('.jpg', cv2.resize(small, (width, height)))
    assert ok
    return data.tobytes()


class RawClient:
    """One stream to a planner. ``hello`` first, then ``ask``; or ``send`` and ``receive``."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(address, options=CLIENT_OPTIONS)
        self.stub = planner_pb2_grpc.PlannerStub(self.channel)
        self._requests: queue.SimpleQueue[planner_pb2.SessionRequest | None] = queue.SimpleQueue()
        self._responses: Iterator[planner_pb2.SessionResponse] | None = None
        self._turn_ids = (f'turn-{number}' for number in itertools.count())
        self.welcome = planner_pb2.Welcome(image_width_px=128, image_height_px=128)

    def __enter__(self) -> RawClient:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the stream and the channel."""
        self.close()

    def close(self) -> None:
        """Half-close the stream, then close the channel."""
        self._requests.put(None)
        self.channel.close()

    def send(self, request: planner_pb2.SessionRequest) -> None:
        """Send any message, right or wrong."""
        if self._responses is None:
            self._responses = self.stub.Session(
                iter(self._requests.get, None), timeout=TIMEOUT_S, wait_for_ready=True
            )
        self._requests.put(request)

    def receive(self) -> planner_pb2.SessionResponse:
        """Return the next message. Raises grpc.RpcError if the call has ended with a status."""
        assert self._responses is not None, 'send something first'
        return next(self._responses)

    def hello(self, **fields: object) -> planner_pb2.Welcome:
        """Say hello with these fields changed; return the welcome."""
        values = {
            'robot_id': 'robot-1',
            'protocol_version': PROTOCOL_VERSION,
            'embodiment': embodiment(),
            **fields,
        }
        self.send(planner_pb2.SessionRequest(hello=planner_pb2.Hello(**values)))  # type: ignore[arg-type]
        self.welcome = self.receive().welcome
        return self.welcome

    def turn(
        self, instruction: str = 'pick up the red cube', **fields: object
    ) -> planner_pb2.Turn:
        """Return a turn that this session can ask, with these fields changed."""
        image = planner_pb2.CameraImage(
            camera='front',
            jpeg=jpeg(self.welcome.image_width_px, self.welcome.image_height_px),
        )
        values = {
            'turn_id': next(self._turn_ids),
            'epoch': self.welcome.epoch,
            'instruction': instruction,
            'observation': planner_pb2.Observation(
                observation_epoch=1, images=[image], joint_positions=[0.0, 0.5, 1.0, 0.02]
            ),
            **fields,
        }
        return planner_pb2.Turn(**values)  # type: ignore[arg-type]

    def send_turn(self, turn: planner_pb2.Turn) -> None:
        """Send a turn without waiting for the answer."""
        self.send(planner_pb2.SessionRequest(turn=turn))

    def ask(self, turn: planner_pb2.Turn | None = None) -> planner_pb2.TurnAnswer:
        """Send a turn and return the next answer."""
        self.send_turn(turn or self.turn())
        return self.receive().turn_answer

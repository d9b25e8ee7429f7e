# SPDX-License-Identifier: Apache-2.0
"""The robot's client and the smallest possible one keep the contract of clients."""

from collections.abc import Callable
import itertools
import time

import grpc
from onboard_decoder.errors import PlannerUnavailable
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_client import LinkSettings, PlannerClient
from onboard_decoder.planner_port import TurnAnswer, TurnRequest
from protos import planner_pb2
import pytest

from tests.contracts.client_contract import AsksTurns, ClientContract
from tests.fakes.raw_client import jpeg as make_jpeg
from tests.fakes.raw_client import RawClient

PATIENCE_S = 30.0


@pytest.fixture
def jpeg() -> bytes:
    """Return an image of the size that the scripted planner asks for."""
    return make_jpeg(128, 128)


class ReconnectingRawClient:
    """The raw client, opened again when its call has ended."""

    def __init__(self, address: str) -> None:
        self._address, self._client, self._session_id = address, RawClient(address), ''
        self._turn_ids = itertools.count()

    def ask(self, instruction: str, jpeg: bytes) -> str:
        """Ask; connect again once."""
        try:
            return self._ask(instruction, jpeg)
        except (grpc.RpcError, StopIteration):
            self._client.close()
            self._client = RawClient(self._address)
            return self._ask(instruction, jpeg)

    def close(self) -> None:
        """Close the stream."""
        self._client.close()

    def _ask(self, instruction: str, jpeg: bytes) -> str:
        if not self._client.welcome.session_id:
            self._session_id = self._client.hello(session_id=self._session_id).session_id
        turn = self._client.turn(instruction, turn_id=f'raw-{next(self._turn_ids)}')
        turn.observation.images[0].CopyFrom(planner_pb2.CameraImage(camera='front', jpeg=jpeg))
        return str(self._client.ask(turn).WhichOneof('result'))


class PatientPlannerClient:
    """The robot's client, waited for; a turn that fails with the link is asked again."""

    def __init__(self, address: str) -> None:
        settings = LinkSettings(hello_timeout_s=2.0, refused_backoff_s=0.2)
        self._client = PlannerClient(address, 'robot-1', load_manifest('tendon_arm'), settings)
        self._turn_ids = itertools.count()

    def ask(self, instruction: str, jpeg: bytes) -> str:
        """Ask until the backbone itself has answered."""
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            turn_id = f'robot-{next(self._turn_ids)}'
            turn = TurnRequest(turn_id, instruction, {'front': jpeg}, (0.0,) * 7, 1, 10.0)
            try:
                pending = self._client.submit(turn)
            except PlannerUnavailable:
                time.sleep(0.02)
                continue
            while (result := pending.poll()) is None:
                time.sleep(0.005)
            if isinstance(result, TurnAnswer):
                return 'plan'
            if result.message == 'later':
                return 'error'
        raise AssertionError('the backbone did not answer')

    def close(self) -> None:
        """End the session."""
        self._client.close()


class TestRawClient(ClientContract):
    @pytest.fixture
    def connect(self) -> Callable[[str], AsksTurns]:
        """Connect the raw client."""
        return ReconnectingRawClient


class TestPlannerClient(ClientContract):
    @pytest.fixture
    def connect(self) -> Callable[[str], AsksTurns]:
        """Connect the robot's client."""
        return PatientPlannerClient

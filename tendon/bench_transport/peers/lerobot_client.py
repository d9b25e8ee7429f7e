# SPDX-License-Identifier: Apache-2.0
"""lerobot's own RobotClient with a robot that stands still. Takes the port.

Each observation must go, or its filter for similar ones would drop it. A call ends when the client
has put the actions into its queue.
"""

import itertools
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

from lerobot.async_inference import robot_client
from lerobot.async_inference.configs import RobotClientConfig
from lerobot.async_inference.helpers import TimedObservation
from tendon.bench_transport.peers.lerobot_features import CAMERA, JOINT_NAMES, SENSED
from tendon.bench_transport.rounds import HORIZON, joints, picture, serve_rounds
import torch

WAIT_S = 30.0


class Asker(robot_client.RobotClient):
    """Asks, and waits until the actions are in the queue."""

    def __init__(self, config: RobotClientConfig) -> None:
        super().__init__(config)
        self._there, self._steps = threading.Event(), itertools.count()
        sensed = dict(zip(JOINT_NAMES, joints().tolist(), strict=True))
        self._seen = {**sensed, CAMERA: picture(), 'task': ''}
        threading.Thread(target=self.receive_actions, daemon=True).start()
        self.start_barrier.wait()

    def _aggregate_action_queues(self, *actions: Any) -> None:
        super()._aggregate_action_queues(*actions)
        self._there.set()

    def call(self) -> Any:
        """Return a chunk (50, 7)."""
        self._there.clear()
        self.send_observation(TimedObservation(
            timestamp=time.time(), timestep=next(self._steps), observation=self._seen,
            must_go=True,
        ))
        if not self._there.wait(WAIT_S):
            raise TimeoutError(f'no actions for {WAIT_S:g} s')
        return torch.stack([action.get_action() for action in self.action_queue.queue])


if __name__ == '__main__':
    robot_client.make_robot_from_config = lambda config: SimpleNamespace(
        observation_features=SENSED, action_features=SENSED, connect=lambda: None,
        disconnect=lambda: None,
    )
    asked = RobotClientConfig(
        policy_type='act', pretrained_name_or_path='none', robot=None,
        actions_per_chunk=HORIZON, server_address=f'127.0.0.1:{sys.argv[1]}',
    )
    client = Asker(asked)
    client.start()
    serve_rounds(client.call)
    client.stop()

# SPDX-License-Identifier: Apache-2.0
"""Our robot's side of a turn: resize and JPEG, question, plan, and the plan decoded to a chunk.

``python -m tendon.bench_transport.our_client PORT`` asks as ``rounds`` says.
"""

import itertools
import sys
import time
from typing import Any

import numpy as np
from onboard_decoder.agent.turn_maker import TurnMaker
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.observation_intake import CameraFrame, JointState
from onboard_decoder.plan_decoder import PlanDecoder
from onboard_decoder.planner_client import PlannerClient
from onboard_decoder.planner_port import TurnAnswer
from tendon.bench_transport.rounds import joints, picture, serve_rounds

CONNECT_S, TURN_S = 20.0, 10.0
INSTRUCTION = 'put the red cube in the blue bin'


class Asker:
    """Asks one turn after the other with the robot's own parts."""

    def __init__(self, client: PlannerClient) -> None:
        self._client, self._maker = client, TurnMaker(TURN_S)
        manifest = load_manifest('tendon_arm')
        self._camera, self._decoder = manifest.cameras[0].name, PlanDecoder(manifest)
        self._picture, self._joints = picture(), joints().astype(np.float64)
        self._epochs = itertools.count(1)
        deadline_s = time.monotonic() + CONNECT_S
        while client.state().grant is None:
            if time.monotonic() > deadline_s:
                raise TimeoutError(client.state().reason)
            client.news.wait(0.01)

    def call(self) -> Any:
        """Return a chunk (50, 7)."""
        client, grant = self._client, self._client.state().grant
        assert grant is not None, 'the session is gone'
        frame = CameraFrame(0, 0, next(self._epochs), self._picture)
        state = JointState(0, self._joints, 0 * self._joints)
        client.news.clear()
        pending = client.submit(
            self._maker.make(INSTRUCTION, {self._camera: frame}, state, grant))
        while (answer := pending.poll()) is None:
            client.news.wait(TURN_S)
            client.news.clear()
        if not isinstance(answer, TurnAnswer):
            raise RuntimeError(answer.message)
        step = answer.plan.steps[0]
        return self._decoder.decode(
            step, state.positions, state.velocities, 0.0, answer.plan.latent).positions


if __name__ == '__main__':
    address = f'127.0.0.1:{sys.argv[1]}'
    with PlannerClient(address, 'bench', load_manifest('tendon_arm')) as link:
        serve_rounds(Asker(link).call)

# SPDX-License-Identifier: Apache-2.0
import threading
import time

from onboard_decoder.clock import MonotonicClock
from onboard_decoder.config import RobotSettings
from onboard_decoder.robot import Robot
from onboard_decoder.runtime import Runtime
import pytest

from tests.onboard_decoder.agent.react_world import AgentPort, ASK, DONE, grasp, PUT
from tests.onboard_decoder.gantry import gantry, GantryDecoder, IMAGE, MirrorArm

COUNTED_S = 0.5


class LiveAgent:
    """A robot in mode react in real time, with a mirror arm."""

    def __init__(self, folder, acts):
        self.clock, manifest = MonotonicClock(), gantry(folder)
        self.arm, self.port = MirrorArm(manifest), AgentPort(self.clock, acts, looks=[None])
        settings = RobotSettings().changed({'agent.mode': 'react', 'agent.watch': 'repair'})
        self.robot = Robot(
            manifest, self.port, GantryDecoder(manifest), self.clock, settings,
            publish=lambda command: self.arm.command(command.positions),
        )
        self.runtime = Runtime(self.robot, self.clock)
        self._ended = threading.Event()
        self._sensors = threading.Thread(target=self._sense)
        self._sensors.start()
        self.runtime.start()
        self.runtime.activate()

    def _sense(self):
        while not self._ended.wait(0.01):
            now_s = self.clock.now_ns() / 1e9
            self.runtime.observe_joints(now_s, self.arm.names, self.arm.positions)
            self.runtime.observe_image('front', now_s, IMAGE)

    def wait(self, state):
        """Wait until the agent is in a state."""
        deadline_s = time.monotonic() + 30
        while self.robot.status().phase != state:
            assert time.monotonic() < deadline_s, self.robot.status().to_json()
            time.sleep(0.005)

    def count(self):
        """Return how many commands come in a while."""
        before = len(self.arm.commands)
        time.sleep(COUNTED_S)
        return len(self.arm.commands) - before

    def close(self):
        """End the threads."""
        self.runtime.stop()
        self._ended.set()
        self._sensors.join()


@pytest.mark.parametrize(('acts', 'state'), [
    ([None], 'think'), ([ASK], 'ask'), ([DONE], 'verify'), ([grasp()], 'act'),
])
def test_the_command_loop_does_not_notice_what_the_agent_waits_for(tmp_path, acts, state):
    """No answer, no person, no second look: as many commands as of an idle robot."""
    live = LiveAgent(tmp_path, acts)
    try:
        live.wait('idle')
        idle = live.count()
        live.robot.ask(PUT)
        live.wait(state)
        waiting = live.count()
    finally:
        live.close()

    assert waiting >= 0.7 * idle > 0
    assert live.runtime.error_count == 0

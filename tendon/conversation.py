# SPDX-License-Identifier: Apache-2.0
"""Talks to a running robot over ROS: says an instruction, follows the status, hears the truth.

Knows four topics of the robot (``instruction``, ``answer``, ``status``, ``/diagnostics``) and one
of the simulated arm (``task/state``). Every wait has a deadline.
"""

from collections.abc import Callable
import json
import time
from types import TracebackType
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from std_msgs.msg import String
from tendon.errors import PartNotReady

Status = dict[str, Any]
SPIN_S = 0.05


class Conversation:
    """One participant of the robot's ROS graph. Use as a context manager.

    Attributes:
      node: its ROS node, for further topics.
      status: newest status of the robot; empty before the first.
      truth: newest state of the simulated task; empty without a simulated arm.
      diagnostics: newest values by task of the robot's node, for example 'command loop'.
      diagnosed_s: stamp of the newest diagnostics [s].
    """

    def __init__(self, name: str = 'tendon_conversation') -> None:
        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        self.node = rclpy.create_node(name, context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._said = self.node.create_publisher(String, 'instruction', 1)
        self._answered = self.node.create_publisher(String, 'answer', 10)
        self.node.create_subscription(String, 'status', self._on_status, 10)
        self.node.create_subscription(String, 'task/state', self._on_truth, 10)
        self.node.create_subscription(DiagnosticArray, '/diagnostics', self._on_diagnostics, 10)
        self.status: Status = {}
        self.truth: Status = {}
        self.diagnostics: dict[str, dict[str, str]] = {}
        self.diagnosed_s = 0.0

    def __enter__(self) -> 'Conversation':
        """Return the participant."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the graph."""
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.try_shutdown(context=self._context)

    def wait_for_robot(
        self, timeout_s: float, each: Callable[[], None] = lambda: None
    ) -> None:
        """Wait until a robot listens and says how it is. Raises PartNotReady."""

        def is_there() -> bool:
            return bool(self.status) and self._said.get_subscription_count() > 0

        if not self.wait(is_there, timeout_s, each):
            raise PartNotReady('robot', timeout_s)

    def say(self, instruction: str) -> None:
        """Give the robot a task."""
        self.status = {}
        self._said.publish(String(data=instruction))

    def answer(self, text: str) -> None:
        """Answer the robot's question, which stands in its status."""
        self._answered.publish(String(data=text))

    def wait(
        self, done: Callable[[], bool], timeout_s: float,
        each: Callable[[], None] = lambda: None,
    ) -> bool:
        """Listen until ``done`` or the time is over; calls ``each`` after each round."""
        deadline_s = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > deadline_s:
                return False
            try:
                self._executor.spin_once(timeout_sec=SPIN_S)
            except ExternalShutdownException:
                return False
            each()
        return True

    def _on_status(self, message: String) -> None:
        self.status = json.loads(message.data)

    def _on_truth(self, message: String) -> None:
        self.truth = json.loads(message.data)

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        stamp = message.header.stamp
        self.diagnosed_s = stamp.sec + stamp.nanosec / 1e9
        for entry in message.status:
            task = entry.name.split(': ', 1)[-1]
            self.diagnostics[task] = {pair.key: pair.value for pair in entry.values}


def result_of(status: Status, instruction: str) -> Status | None:
    """Return the result of this instruction, or None while it is under way."""
    result = status.get('result')
    if result is None or result['instruction'] != instruction.strip() or status['instruction']:
        return None
    return dict(result)

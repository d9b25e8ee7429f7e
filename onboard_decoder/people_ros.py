# SPDX-License-Identifier: Apache-2.0
"""Topics and services by which people tell the robot something; hands it on, decides nothing.

Subscribes: instruction and answer (std_msgs/String), estop (std_msgs/Bool: true while the
emergency stop is pressed; to be repeated, so that a node that starts later hears it). Service:
~/stop (std_srvs/Trigger).
"""

from collections.abc import Callable
from functools import partial

from onboard_decoder.errors import InstructionRefused
from onboard_decoder.robot import Robot
from rclpy.node import Node
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

_THROTTLE_S = 5.0


class People:
    """Hears what people say; ``entities`` undo what was made."""

    def __init__(self, node: Node, robot: Robot) -> None:
        self._node, self._robot = node, robot
        subscriptions = [
            node.create_subscription(String, 'instruction', self._on_instruction, 10),
            node.create_subscription(String, 'answer', self._on_answer, 10),
            node.create_subscription(Bool, 'estop', self._on_estop, 10),
        ]
        service = node.create_service(Trigger, '~/stop', self._on_stop)
        self.entities: list[Callable[[], object]] = [
            *(partial(node.destroy_subscription, entry) for entry in subscriptions),
            partial(node.destroy_service, service),
        ]

    def _on_instruction(self, message: String) -> None:
        if not self._robot.is_active:
            self._node.get_logger().warning(
                'instruction ignored: the node is not active', throttle_duration_sec=_THROTTLE_S
            )
            return
        try:
            self._robot.ask(message.data)
        except InstructionRefused as error:
            self._node.get_logger().error(str(error))

    def _on_answer(self, message: String) -> None:
        try:
            self._robot.answer(message.data)
        except InstructionRefused as error:
            self._node.get_logger().error(str(error))

    def _on_estop(self, message: Bool) -> None:
        self._robot.estop(message.data)

    def _on_stop(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._robot.stop()
        response.success, response.message = True, 'braking; the next instruction starts anew'
        return response

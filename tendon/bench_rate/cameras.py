# SPDX-License-Identifier: Apache-2.0
"""Publishes made-up pictures as further cameras of a robot, until a signal ends it."""

from array import array
import sys
from typing import Any

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image

WIDTH_PX, HEIGHT_PX, RATE_HZ = 640, 480, 30.0


class Cameras(Node):
    """One publisher per topic, all at the same rate."""

    def __init__(self, topics: list[str], **options: Any) -> None:
        super().__init__('made_up_cameras', **options)
        self._made = [
            self.create_publisher(Image, topic, qos_profile_sensor_data) for topic in topics
        ]
        noise = np.random.default_rng(0).integers(0, 256, HEIGHT_PX * WIDTH_PX * 3, np.uint8)
        self._data = array('B')
        self._data.frombytes(noise.tobytes())
        self.create_timer(1.0 / RATE_HZ, self._publish)

    def _publish(self) -> None:
        message = Image()
        message.header.stamp = self.get_clock().now().to_msg()
        message.height, message.width, message.step = HEIGHT_PX, WIDTH_PX, 3 * WIDTH_PX
        message.encoding, message.data = 'rgb8', self._data
        for publisher in self._made:
            publisher.publish(message)


def main() -> None:
    """Publish on the topics of the command line."""
    rclpy.init()
    try:
        rclpy.spin(Cameras(sys.argv[1:]))
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        rclpy.try_shutdown()  # type: ignore[attr-defined]


if __name__ == '__main__':
    main()

# SPDX-License-Identifier: Apache-2.0
"""Promises of the doctor on a real ROS graph."""

from collections.abc import Iterator
import threading

import pytest
from tendon.doctor_finding import State

pytestmark = pytest.mark.ros
rclpy = pytest.importorskip('rclpy')


@pytest.fixture
def publisher() -> Iterator[None]:
    """Joints at 100 Hz and images at 4 Hz, from a node of this process."""
    from rclpy.executors import SingleThreadedExecutor
    from sensor_msgs.msg import Image, JointState

    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node('publishes', context=context)
    joints = node.create_publisher(JointState, 'joint_states', 10)
    images = node.create_publisher(Image, 'camera/image_raw', 10)

    def stamped(message: object) -> object:
        message.header.stamp = node.get_clock().now().to_msg()  # type: ignore[attr-defined]
        return message

    node.create_timer(0.01, lambda: joints.publish(stamped(JointState())))
    node.create_timer(0.25, lambda: images.publish(stamped(Image())))
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    ended = threading.Event()

    def spin() -> None:
        while not ended.is_set():
            executor.spin_once(timeout_sec=0.05)

    thread = threading.Thread(target=spin)
    thread.start()
    yield
    ended.set()
    thread.join()
    executor.shutdown()
    node.destroy_node()
    rclpy.try_shutdown(context=context)


def test_the_doctor_hears_joints_and_cameras(publisher: None) -> None:
    """What comes often enough is right; what does not is named with its rate."""
    from tendon.doctor_graph import graph_findings

    joints, camera = graph_findings()
    assert '/joint_states' in joints.detail
    assert 'stamped' not in joints.detail
    assert camera.state is State.WARNING
    assert '/camera/image_raw' in camera.detail and 'less than 8' in camera.detail


def test_without_publishers_the_doctor_has_nothing_to_judge() -> None:
    """An empty graph is no fault of this machine."""
    from tendon.doctor_graph import graph_findings

    assert [found.state for found in graph_findings()] == [State.SKIPPED, State.SKIPPED]

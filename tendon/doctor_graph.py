# SPDX-License-Identifier: Apache-2.0
"""Checks of ``tendon doctor`` on a running ROS graph: how often joints and images come.

Listens for two seconds to whoever publishes; where nobody does there is nothing to say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
import time
from typing import Any

from tendon.doctor_finding import Finding, State

LOOK_S, LISTEN_S = 1.0, 2.0
JOINTS, IMAGE, JPEG = (
    f'sensor_msgs/msg/{name}' for name in ('JointState', 'Image', 'CompressedImage')
)
# Rates [Hz] below which the robot works worse, and what to do then.
LEAST_HZ = {JOINTS: 45.0, IMAGE: 8.0, JPEG: 8.0}
REMEDIES = {
    JOINTS: 'raise the rate of the joint_state_broadcaster to 50 Hz or more',
    IMAGE: 'raise the rate of the camera; give every process the DDS profile, or take '
           'image_transport: compressed (docs/deployment.md)',
    JPEG: 'raise the rate of the camera or of its compression',
}
OLDEST_S = 0.5
CLOCKS = 'let chrony keep the clocks of both machines together, see docs/deployment.md'
START = 'start arm and camera, then tendon doctor again'


@dataclass
class Heard:
    """What came on one topic: when [s], and how old it was by its stamp [s]."""

    kind: str
    came_s: list[float] = field(default_factory=list)
    ages_s: list[float] = field(default_factory=list)

    @property
    def rate_hz(self) -> float:
        """Messages per second between the first and the last."""
        span_s = self.came_s[-1] - self.came_s[0] if self.came_s else 0.0
        return (len(self.came_s) - 1) / span_s if span_s > 0 else 0.0


def graph_findings() -> list[Finding]:
    """Listen, and return one finding for joints and one for cameras."""
    try:
        import rclpy
    except ImportError:
        return findings_of({}, 'there is no ROS here')
    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node('tendon_doctor', context=context)
    try:
        return findings_of(_listen(node, context), 'nobody publishes any')
    finally:
        node.destroy_node()
        rclpy.try_shutdown(context=context)


def findings_of(heard: Mapping[str, Heard], silence: str) -> list[Finding]:
    """Judge what was heard on each topic; ``silence`` says why there may be none."""
    return [
        _judged('joints', {topic: one for topic, one in heard.items() if one.kind == JOINTS},
                silence),
        _judged('camera', {topic: one for topic, one in heard.items() if one.kind != JOINTS},
                silence),
    ]


def _judged(name: str, heard: Mapping[str, Heard], silence: str) -> Finding:
    if not heard:
        return Finding(name, State.SKIPPED, silence, START)
    texts, remedies = [], []
    for topic, one in sorted(heard.items()):
        texts.append(f'{topic} {one.rate_hz:.1f} Hz')
        if one.rate_hz < LEAST_HZ[one.kind]:
            texts[-1] += f' (less than {LEAST_HZ[one.kind]:.0f})'
            remedies.append(REMEDIES[one.kind])
        if one.ages_s and abs(median(one.ages_s)) > OLDEST_S:
            texts[-1] += f', stamped {median(one.ages_s):.1f} s ago'
            remedies.append(CLOCKS)
    state = State.WARNING if remedies else State.OK
    return Finding(name, state, '; '.join(texts), '; '.join(dict.fromkeys(remedies)))


def _listen(node: Any, context: Any) -> dict[str, Heard]:
    """Subscribe to every topic of joints and images that is published, and spin."""
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.qos import qos_profile_sensor_data
    from sensor_msgs.msg import CompressedImage, Image, JointState

    kinds = {JOINTS: JointState, IMAGE: Image, JPEG: CompressedImage}
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    _spin(executor, LOOK_S)
    heard: dict[str, Heard] = {}
    topics = dict(node.get_topic_names_and_types())
    is_simulated = '/clock' in topics  # stamps may be of another time than this machine's
    for topic, types in topics.items():
        kind = next((name for name in types if name in kinds), None)
        if kind is None or not node.count_publishers(topic):
            continue
        heard[topic] = Heard(kind)
        node.create_subscription(
            kinds[kind], topic, _listener(heard[topic], None if is_simulated else node),
            qos_profile_sensor_data,
        )
    if heard:
        _spin(executor, LISTEN_S)
    executor.shutdown()
    return heard


def _listener(heard: Heard, node: Any) -> Any:
    def on_message(message: Any) -> None:
        stamp = message.header.stamp
        heard.came_s.append(time.monotonic())
        if node is not None and (stamp.sec or stamp.nanosec):
            now_s = node.get_clock().now().nanoseconds / 1e9
            heard.ages_s.append(now_s - stamp.sec - stamp.nanosec / 1e9)

    return on_message


def _spin(executor: Any, duration_s: float) -> None:
    end_s = time.monotonic() + duration_s
    while (left_s := end_s - time.monotonic()) > 0:
        executor.spin_once(timeout_sec=left_s)

# SPDX-License-Identifier: Apache-2.0
"""Stands between a simulated arm and its robot: hands joints and images on, or does not.

Takes the arm's topics, publishes the same under ``RELAYED``; listens to the robot's commands too.
Spins a thread of its own, so that it goes on while somebody else waits.
"""

from collections import deque
from enum import Enum
import threading
import time
from types import TracebackType

from onboard_decoder.manifest import Manifest
from onboard_decoder.realtime import Priority
import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Bool
from tendon.bench_faults.cable import PRIORITY
from trajectory_msgs.msg import JointTrajectory

RELAYED = {'joint_states': 'relayed/joint_states', 'camera/image_raw': 'relayed/image_raw'}
COMMANDS = 'joint_trajectory_controller/joint_trajectory'
STILL = 1e-3  # of each joint's speed limit
_SPIN_S = 0.05


class Way(Enum):
    """What becomes of a sense."""

    LIVE = 'live'
    SILENT = 'silent'  # nothing is handed on
    FROZEN = 'frozen'  # new stamps, old content


class Senses:
    """The relay. Use as a context manager; set ``joints`` and ``images`` at any time."""

    def __init__(self, manifest: Manifest) -> None:
        self._speeds = {joint.name: joint.max_velocity for joint in manifest.joints}
        self.joints = self.images = Way.LIVE
        self._last_joints: JointState | None = None
        self._last_image: Image | None = None
        self._moves: deque[tuple[float, float]] = deque(maxlen=20000)  # [s], share of the limit
        self._ready, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name='senses', daemon=True)

    def _connect(self) -> None:
        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        self._node = rclpy.create_node('tendon_senses', context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        make, hear = self._node.create_publisher, self._node.create_subscription
        self._felt = make(JointState, RELAYED['joint_states'], 10)
        self._seen = make(Image, RELAYED['camera/image_raw'], 1)
        self._estop = make(Bool, 'estop', 10)
        hear(JointState, 'joint_states', self._on_joints, qos_profile_sensor_data)
        hear(Image, 'camera/image_raw', self._on_image, qos_profile_sensor_data)
        hear(JointTrajectory, COMMANDS, self._on_command, 10)

    def __enter__(self) -> 'Senses':
        """Begin to hand on."""
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the graph."""
        self._ended.set()
        self._thread.join()

    def press(self, is_pressed: bool) -> None:
        """Press or release the emergency stop."""
        self._estop.publish(Bool(data=is_pressed))

    def is_moving(self) -> bool:
        """Say whether the newest command moves a joint."""
        return bool(self._moves) and self._moves[-1][1] > 10 * STILL

    def rested_s(self, after_s: float, for_s: float = 0.2) -> float | None:
        """Return since when [s] the commanded joints have stood still; None while they move.

        Args:
          after_s: what was commanded before does not count.
          for_s: how long they must have stood still.
        """
        since_s = None
        for time_s, share in tuple(self._moves):
            if time_s < after_s:
                continue
            since_s = None if share > STILL else time_s if since_s is None else since_s
        if since_s is None or self._moves[-1][0] - since_s < for_s:
            return None
        return since_s

    def _run(self) -> None:
        """Hand on until the end; nothing of it waits for a busy processor."""
        Priority(PRIORITY).take()  # before the threads of the middleware begin, which inherit it
        self._connect()
        self._ready.set()
        while not self._ended.is_set():
            try:
                self._executor.spin_once(timeout_sec=_SPIN_S)
            except ExternalShutdownException:
                break
        self._executor.shutdown()
        self._node.destroy_node()
        rclpy.try_shutdown(context=self._context)

    def _on_joints(self, message: JointState) -> None:
        if self.joints is Way.FROZEN and self._last_joints is not None:
            self._last_joints.header.stamp = message.header.stamp
            self._felt.publish(self._last_joints)
        elif self.joints is Way.LIVE:
            self._last_joints = message
            self._felt.publish(message)

    def _on_image(self, message: Image) -> None:
        if self.images is Way.FROZEN and self._last_image is not None:
            self._last_image.header.stamp = message.header.stamp
            self._seen.publish(self._last_image)
        elif self.images is Way.LIVE:
            self._last_image = message
            self._seen.publish(message)

    def _on_command(self, message: JointTrajectory) -> None:
        point = message.points[0]
        shares = [
            abs(speed) / self._speeds[name]
            for name, speed in zip(message.joint_names, point.velocities, strict=True)
        ]
        self._moves.append((time.monotonic(), max(shares)))

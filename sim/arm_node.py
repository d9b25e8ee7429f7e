# SPDX-License-Identifier: Apache-2.0
"""ROS 2 node around the simulated arm: the same topics as a real arm with ros2_control.

Publishes joint_states, camera/image_raw, camera/image_raw/compressed, camera/camera_info,
task/state (the simulator's truth as JSON, for tests and demonstrations only) and, on demand,
/clock. Takes joint_trajectory_controller/joint_trajectory or
forward_position_controller/commands (order of the manifest's joints). A simulated person hears
question and answers on answer (both std_msgs/String). Service ~/reset draws the scene anew from
the present parameters. Parameters: `sim.node_parameters_ros`.
"""

from __future__ import annotations

import json
import signal
import threading
from typing import Any

from builtin_interfaces.msg import Time
import rclpy
from rclpy.duration import Duration
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.utilities import try_shutdown
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState
from sim import messages_ros as messages
from sim.arm_factory import make_arm
from sim.arm_port import JointReading
from sim.camera import Image as Picture
from sim.errors import CommandError, GazeboLost, SceneError, SimError
from sim.node_parameters_ros import declare
from sim.simulation_loop import Outputs, Periods, SimulationLoop
from sim.surroundings import ANY_FITS, named_mishap
from sim.tasks import draw_task
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

WARN_PERIOD_S = 5.0


class ArmNode(Node):
    """The simulated robot.

    Attributes:
        failed: True after the simulation stopped because of an error.
    """

    def __init__(self) -> None:
        super().__init__('sim_arm')
        self.failed = False
        self._lost_s = 0.0
        self._log: Any = Node.get_logger(self)
        declare(self)
        self._use_clock = bool(self._value('use_clock'))
        self._is_gazebo = self._value('simulator') == 'gazebo'
        arm = make_arm(
            self._value('simulator'), self._value('seed'), self._value('position_noise'),
            self._value('velocity_noise'),
        )
        rates = (self._value(f'{kind}_rate_hz') for kind in ('joint', 'image', 'state'))
        self._loop = SimulationLoop(arm, Periods(*(1.0 / rate for rate in rates)))
        self._advertise()
        self._log.info(self._draw())
        self.create_subscription(
            JointTrajectory, 'joint_trajectory_controller/joint_trajectory', self._follow, 1
        )
        self.create_subscription(
            Float64MultiArray, 'forward_position_controller/commands', self._move, 1
        )
        self.create_subscription(String, 'question', self._hear, 10)
        self.create_service(Trigger, '~/reset', self._reset)
        self._thread = threading.Thread(target=self._run, name='simulation', daemon=True)
        self._thread.start()

    def destroy_node(self) -> None:
        """Stop the simulation, then the node."""
        self._loop.stop()
        self._thread.join(timeout=2.0)
        Node.destroy_node(self)

    def _value(self, name: str) -> Any:
        return self.get_parameter(name).value

    def _advertise(self) -> None:
        self._joints = self.create_publisher(JointState, 'joint_states', 10)
        self._image = self.create_publisher(Image, 'camera/image_raw', 1)
        self._jpeg = self.create_publisher(CompressedImage, 'camera/image_raw/compressed', 1)
        self._info = self.create_publisher(CameraInfo, 'camera/camera_info', 1)
        self._said = self.create_publisher(String, 'answer', 10)
        keep = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._state = self.create_publisher(String, 'task/state', keep)
        self._clock_topic = self.create_publisher(Clock, '/clock', 10) if self._use_clock else None

    def _run(self) -> None:
        """Body of the simulation's thread; a failure there ends the node."""
        outputs = Outputs(
            self._publish_joints, self._publish_picture, self._publish_state, self._is_watched,
            self._say,
        )
        try:
            while not self._has_run(outputs):
                self._log.info(self._draw())
        except Exception as fault:  # publishing fails too when the context has been shut down
            if self.context.ok():
                self.failed = True
                self._log.fatal(f'simulation stopped: {type(fault).__name__}: {fault}')
                self.context.try_shutdown()

    def _has_run(self, outputs: Outputs) -> bool:
        """Run to the wanted end; False if Gazebo was lost on the way, and has to start again."""
        try:
            self._loop.run(outputs, self._pace)
        except GazeboLost as fault:
            self._log.error(f'{fault}; it is started again with the same scene')
            return False
        return True

    def _pace(self) -> float:
        """Return the wanted real-time factor; Gazebo keeps step with the clock by itself."""
        return 0.0 if self._is_gazebo else float(self._value('real_time_factor'))

    def _stamp(self, age_s: float = 0.0) -> Time:
        if self._use_clock:
            return messages.stamp_of(max(0.0, self._loop.time_s - age_s))
        return (self.get_clock().now() - Duration(nanoseconds=round(age_s * 1e9))).to_msg()

    def _publish_joints(self, reading: JointReading) -> None:
        stamp = self._stamp()
        if self._clock_topic is not None:
            self._clock_topic.publish(Clock(clock=stamp))
        self._joints.publish(messages.joint_state(reading, stamp))

    def _is_watched(self) -> bool:
        topics = (self._image, self._jpeg, self._info)
        return any(topic.get_subscription_count() for topic in topics)

    def _publish_picture(self, picture: Picture) -> None:
        stamp = self._stamp(self._loop.picture_age_s)
        self._info.publish(messages.camera_info(stamp))
        if self._image.get_subscription_count():
            self._image.publish(messages.image(picture, stamp))
        if self._jpeg.get_subscription_count():
            quality = int(self._value('jpeg_quality'))
            self._jpeg.publish(messages.compressed_image(picture, stamp, quality))

    def _publish_state(self, state: dict[str, object]) -> None:
        if self._loop.lost_s > self._lost_s:
            self._lost_s = self._loop.lost_s
            self._log.warning(
                f'slower than real time: {self._lost_s:.2f} s lost so far; '
                'lower real_time_factor or free the processor',
                throttle_duration_sec=WARN_PERIOD_S,
            )
        self._state.publish(String(data=json.dumps(state)))

    def _follow(self, message: JointTrajectory) -> None:
        delay_s = 0.0
        if message.header.stamp.sec or message.header.stamp.nanosec:
            delay_s = messages.seconds(message.header.stamp) - messages.seconds(self._stamp())
        try:
            points = messages.trajectory_points(message)
            self._loop.follow(message.joint_names, points, delay_s)
        except CommandError as fault:
            self._log.warning(str(fault), throttle_duration_sec=WARN_PERIOD_S)

    def _move(self, message: Float64MultiArray) -> None:
        try:
            self._loop.move_to(list(message.data))
        except CommandError as fault:
            self._log.warning(str(fault), throttle_duration_sec=WARN_PERIOD_S)

    def _hear(self, message: String) -> None:
        if self._value('person'):
            self._loop.ask(message.data)

    def _say(self, answer: str) -> None:
        self._said.publish(String(data=answer))

    def _draw(self) -> str:
        """Draw scene and task from the present parameters; returns words about them."""
        seed, mishap = int(self._value('scene_seed')), str(self._value('mishap'))
        if self._is_gazebo and mishap != 'none':
            raise SceneError('mishap in Gazebo', mishap, 'none')
        any_kind = None if mishap == 'none' else ANY_FITS
        scene, task = draw_task(
            seed,
            self._value('split'),
            self._value('wording'),
            self._value('task') or any_kind,
            self._value('axis'),
        )
        self._loop.reset(scene, task, seed, named_mishap(mishap, seed, task))
        trouble = '' if mishap == 'none' else f', with a mishap: {mishap}'
        return f'scene {seed}: {task.kind}, {task.instruction!r}{trouble}'

    def _reset(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        try:
            response.message, response.success = self._draw(), True
        except SimError as fault:
            response.message, response.success = str(fault), False
        self._log.info(f'reset: {response.message}')
        return response


def main(args: list[str] | None = None) -> None:
    """Run the node until it is interrupted."""
    rclpy.init(args=args)
    node = None
    try:
        node = ArmNode()
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except Exception:
        if rclpy.ok():  # else it was told to stop while it was starting
            raise
    finally:
        # A launch system interrupts twice; the second one must not break the clean-up.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if node is not None:
            node.destroy_node()
        try_shutdown()
    if node is not None and node.failed:
        raise SystemExit(1)


if __name__ == '__main__':
    main()

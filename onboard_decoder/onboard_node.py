# SPDX-License-Identifier: Apache-2.0
"""ROS 2 lifecycle node around the robot: messages in, messages out, nothing decided here.

Subscribes: joint_states; camera/image_raw or camera/image_raw/compressed (with several cameras
<camera>/image_raw); instruction and answer (std_msgs/String); estop (std_msgs/Bool). Publishes:
joint_trajectory_controller/joint_trajectory or forward_position_controller/commands; question
(std_msgs/String, to a person); status (std_msgs/String, JSON); /diagnostics. Service: ~/stop
(std_srvs/Trigger). Parameters: ``parameters_ros``.
Configure loads manifest, decoder and session; activate commands; deactivate brakes and holds.
"""

from collections.abc import Callable
from functools import partial
import sys
import traceback
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from onboard_decoder import messages_ros as messages
from onboard_decoder import parameters_ros as parameters
from onboard_decoder.clock import MonotonicClock, to_ns, to_s
from onboard_decoder.diagnostics_ros import diagnose
from onboard_decoder.ending import Ending
from onboard_decoder.errors import ConfigError, ObservationError
from onboard_decoder.image_codec import Image
from onboard_decoder.manifest import Manifest
from onboard_decoder.people_ros import People
from onboard_decoder.planner_client import LinkSettings
from onboard_decoder.realtime import prepare_process, Priority
from onboard_decoder.robot_factory import Paths, RobotParts
from onboard_decoder.runtime import Runtime, RuntimeSettings
from onboard_decoder.servo import Command
from onboard_decoder.tls import TlsFiles
import rclpy
from rclpy.clock import Clock, ClockType
from rclpy.exceptions import ParameterException
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.logging import get_logger
from rclpy.qos import qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions
from rclpy.subscription import Subscription
from sensor_msgs.msg import CompressedImage, JointState
from sensor_msgs.msg import Image as ImageMessage
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory

Message = Any  # of a class that ROS generated
SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE
_THROTTLE_S = 5.0
_SPIN_S = 0.1
# Simulated time may stand still; just then somebody wants to know why.
_WALL = Clock(clock_type=ClockType.STEADY_TIME)


class OnboardNode(LifecycleNode):
    """The robot's runtime in a ROS graph."""

    def __init__(self, **options: Any) -> None:
        super().__init__('onboard_node', **options)
        for name in parameters.declare(self):
            self.get_logger().warning(f'parameter {name} is unknown and ignored')
        self._monotonic = MonotonicClock()
        self._parts: RobotParts | None = None
        self._process_priority = Priority(0)
        self._entities: list[Callable[[], object]] = []  # undo what configure made

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load everything; say in one sentence what is wrong where that fails."""
        try:
            told, behaviour = parameters.read(self)
            self._process_priority = prepare_process(told.process_priority)
            self._parts = RobotParts.build(
                told.robot,
                told.robot_id,
                told.backbone_address,
                LinkSettings(
                    cache_policy=told.cache_policy, cache_budget_bytes=told.cache_budget_bytes,
                    silence_s=behaviour.watchdog.silence_s,
                ),
                behaviour,
                RuntimeSettings(loop_priority=told.loop_priority),
                Paths(
                    told.latency_path, told.transcript_path, told.record_path, told.lessons_path
                ),
                self._monotonic,
                self._publish_command,
                self._publish_question,
                TlsFiles(told.tls_ca, told.tls_certificate, told.tls_key),
            )
        except ConfigError as error:
            self.get_logger().fatal(str(error))
            return FAILURE
        except Exception:
            # Otherwise rclpy would turn it into a failed transition without a word.
            self.get_logger().fatal(traceback.format_exc())
            return FAILURE
        self._connect(told, self._parts.robot.manifest)
        self._parts.runtime.start()
        return SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Command from now on; the first command is the measured pose."""
        result = super().on_activate(state)
        self._runtime.activate()
        return result

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Brake and hold."""
        self._runtime.deactivate()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Forget everything that configure made."""
        self.close()
        return SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Brake, then forget."""
        self.close()
        return SUCCESS

    def close(self) -> None:
        """Brake if there is something to brake, end the threads, leave the topics; idempotent."""
        if self._parts is not None:
            if self._parts.robot.is_active:
                self._parts.runtime.deactivate()
            self._parts.close()
        self._parts = None
        while self._entities:
            self._entities.pop()()

    @property
    def _runtime(self) -> Runtime:
        assert self._parts is not None
        return self._parts.runtime

    def _connect(self, told: parameters.NodeParameters, manifest: Manifest) -> None:
        """Make publishers, subscriptions, timers and the service."""
        if told.command_interface == 'joint_trajectory':
            topic, kind = 'joint_trajectory_controller/joint_trajectory', JointTrajectory
        else:
            topic, kind = 'forward_position_controller/commands', Float64MultiArray
        self._manifest, self._as_trajectory = manifest, kind is JointTrajectory
        self._commands = self.create_lifecycle_publisher(kind, topic, 1)
        self._status = self.create_publisher(String, 'status', 10)
        self._questions = self.create_publisher(String, 'question', 10)
        self._diagnostics = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        subscriptions = [
            self.create_subscription(
                JointState, 'joint_states', self._on_joints, qos_profile_sensor_data
            ),
            *self._subscribe_cameras(told.image_transport),
        ]
        timers = [
            self.create_timer(1.0 / told.status_rate_hz, self._publish_status, clock=_WALL),
            self.create_timer(1.0, self._publish_diagnostics, clock=_WALL),
        ]
        self._entities = [
            partial(self.destroy_lifecycle_publisher, self._commands),
            partial(self.destroy_publisher, self._status),
            partial(self.destroy_publisher, self._questions),
            partial(self.destroy_publisher, self._diagnostics),
            *(partial(self.destroy_subscription, entry) for entry in subscriptions),
            *(partial(self.destroy_timer, entry) for entry in timers),
            *People(self, self._runtime.robot).entities,
        ]

    def _subscribe_cameras(self, transport: str) -> list[Subscription]:
        """Subscribe to each camera of the manifest."""
        names = [camera.name for camera in self._manifest.cameras]
        made = []
        for name in names:
            topic = 'camera/image_raw' if len(names) == 1 else f'{name}/image_raw'
            if transport == 'compressed':
                made.append(self.create_subscription(
                    CompressedImage, f'{topic}/compressed', partial(self._on_jpeg, name),
                    qos_profile_sensor_data,
                ))
            else:
                made.append(self.create_subscription(
                    ImageMessage, topic, partial(self._on_image, name), qos_profile_sensor_data
                ))
        return made

    def _on_joints(self, message: JointState) -> None:
        try:
            self._runtime.observe_joints(
                self._stamp_s(message), message.name, message.position, message.velocity
            )
        except ObservationError as error:
            self._warn(str(error))

    def _on_image(self, camera: str, message: ImageMessage) -> None:
        self._take_image(camera, message, messages.from_image)

    def _on_jpeg(self, camera: str, message: CompressedImage) -> None:
        self._take_image(camera, message, messages.from_compressed)

    def _take_image(
        self, camera: str, message: Message, read: Callable[[Message], Image]
    ) -> None:
        try:
            self._runtime.observe_image(camera, self._stamp_s(message), read(message))
        except ObservationError as error:
            self._runtime.robot.notice = str(error)
            self._warn(str(error))

    def _publish_command(self, command: Command) -> None:
        """Called by the command loop's thread."""
        message = (
            messages.to_trajectory(command, self._manifest) if self._as_trajectory
            else messages.to_array(command)
        )
        self._commands.publish(message)

    def _publish_question(self, question: str) -> None:
        """Called by the agent's thread."""
        self._questions.publish(String(data=question))

    def _publish_status(self) -> None:
        self._status.publish(String(data=self._runtime.robot.status().to_json()))

    def _publish_diagnostics(self) -> None:
        self._diagnostics.publish(diagnose(
            self.get_name(), self._runtime, self._process_priority.state,
            self.get_clock().now().to_msg(),
        ))

    def _stamp_s(self, message: Message) -> float:
        """Return when the message was taken on the robot's monotonic clock [s].

        The age is measured on the node's clock, so simulated time and real time both work; a
        message without a stamp, or with one of the future, counts as taken now.
        """
        taken_ns = messages.stamp_ns(message.header.stamp)
        age_ns = self.get_clock().now().nanoseconds - taken_ns if taken_ns else 0
        if age_ns < -to_ns(0.1):
            self._warn(f'a stamp lies {-to_s(age_ns):.1f} s ahead: are the clocks in step?')
        return to_s(self._monotonic.now_ns() - max(0, age_ns))

    def _warn(self, text: str) -> None:
        self.get_logger().warning(text, throttle_duration_sec=_THROTTLE_S)


def start(node: OnboardNode) -> bool:
    """Configure and activate, if the parameter ``autostart`` says so; False where that failed."""
    if not node.get_parameter('autostart').value:
        return True
    return bool(node.trigger_configure() == SUCCESS and node.trigger_activate() == SUCCESS)


def main(args: list[str] | None = None) -> int:
    """Run the node until a signal comes; return the exit status."""
    ending = Ending()
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = OnboardNode()
    except ParameterException as error:
        get_logger('onboard_node').fatal(str(error))
        rclpy.try_shutdown()  # type: ignore[attr-defined]
        return 1
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        is_started = start(node)
        while is_started and not ending.is_wanted:
            executor.spin_once(timeout_sec=_SPIN_S)
    except (KeyboardInterrupt, ExternalShutdownException):
        is_started = True
    finally:
        node.close()
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown()  # type: ignore[attr-defined]
        ending.ignore_further()
    return 0 if is_started else 1


if __name__ == '__main__':
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""An onboard node, a mirror arm and a scripted backbone in one ROS graph of their own."""

import json
from pathlib import Path
import threading
import time

from builtin_interfaces.msg import Time
import cv2
from diagnostic_msgs.msg import DiagnosticArray
import numpy as np
from onboard_decoder import robot_factory
from onboard_decoder.onboard_node import OnboardNode, start
from protos import plan_pb2
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory

from tests.fakes.scripted_planner import plan_of, ScriptedPlanner, step
from tests.onboard_decoder.gantry import gantry, GantryDecoder, IMAGE, MirrorArm

SHUFFLED = [3, 1, 0, 2]
TIMEOUT_S = 60.0


def plans():
    """Reach, grasp, lift, move, place, lift, home; then done."""
    steps = plan_of(
        step('reach', (0.5, 0.1, 0.2)),
        step('grasp', (0.5, 0.1, 0.02), gripper_opening=0.0, success='HOLDING'),
        step('lift', (0.5, 0.1, 0.2), gripper_opening=0.0),
        step('move', (0.4, -0.2, 0.2), gripper_opening=0.0),
        step('place', (0.4, -0.2, 0.1), success='RELEASED'),
        step('home'),
    )
    return [steps, plan_pb2.ActionPlan(outcome=plan_pb2.PLAN_OUTCOME_DONE, reason='There.')]


class Arm:
    """A mirror arm in the ROS graph; its joints come in another order than the manifest's."""

    def __init__(self, node, manifest, simulates_time):
        self.node, self.mirror = node, MirrorArm(manifest)
        self.mirror.thing_m, self.mirror.thing_below_m = 0.02, 0.05
        self.names = [manifest.joint_names[i] for i in SHUFFLED]
        self.manifest, self.has_joints, self.image = manifest, True, IMAGE
        self.is_paused = False  # as a paused simulator is: time, joints and pictures stand still
        self.statuses, self.diagnostics, self.trajectories = [], [], []
        self._joints = node.create_publisher(JointState, 'joint_states', 10)
        self._image = node.create_publisher(Image, 'camera/image_raw', 1)
        self._jpeg = node.create_publisher(CompressedImage, 'camera/image_raw/compressed', 1)
        self._said = node.create_publisher(String, 'instruction', 1)
        node.create_subscription(
            JointTrajectory, 'joint_trajectory_controller/joint_trajectory', self._follow, 1)
        node.create_subscription(
            Float64MultiArray, 'forward_position_controller/commands',
            lambda message: self.mirror.command(np.array(message.data)), 1)
        node.create_subscription(
            String, 'status', lambda m: self.statuses.append(json.loads(m.data)), 10)
        self.questions = []
        self._answered = node.create_publisher(String, 'answer', 1)
        node.create_subscription(String, 'question', lambda m: self.questions.append(m.data), 10)
        node.create_subscription(DiagnosticArray, '/diagnostics', self.diagnostics.append, 10)
        self._began_ns = time.monotonic_ns() if simulates_time else 0
        self._clock = node.create_publisher(Clock, '/clock', 10) if simulates_time else None
        node.create_timer(0.01, self._publish_joints)
        node.create_timer(0.05, self._publish_image)

    def say(self, text):
        """Give an instruction once somebody listens."""
        self.spin_until(lambda: self._said.get_subscription_count() > 0)
        self.statuses.clear()
        self._said.publish(String(data=text))

    def answer(self, text):
        """Answer the robot's question."""
        self._answered.publish(String(data=text))

    def spin_until(self, condition):
        """Wait, while another thread spins."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline_s, self.statuses[-1:] or 'no status'
            time.sleep(0.005)

    def result(self):
        """Wait for the result of the task."""
        self.spin_until(lambda: self.statuses and self.statuses[-1]['result'])
        return self.statuses[-1]['result']

    def wait_step(self, name):
        """Wait until a step is under way."""
        self.spin_until(lambda: self.statuses and self.statuses[-1]['step'] == name)

    def _follow(self, message):
        self.trajectories.append(message)
        assert message.joint_names == list(self.manifest.joint_names)
        self.mirror.command(np.array(message.points[0].positions))

    def _stamp(self):
        """Now, on the clock that the graph goes by."""
        if self._clock is None:
            return self.node.get_clock().now().to_msg()
        passed_ns = time.monotonic_ns() - self._began_ns
        return Time(sec=100 + passed_ns // 10**9, nanosec=passed_ns % 10**9)

    def _publish_joints(self):
        if self.is_paused:
            return
        if self._clock is not None:
            self._clock.publish(Clock(clock=self._stamp()))
        if self.has_joints:
            message = JointState(name=self.names)
            message.header.stamp = self._stamp()
            message.position = [float(self.mirror.positions[i]) for i in SHUFFLED]
            self._joints.publish(message)

    def _publish_image(self):
        if self.is_paused:
            return
        stamp = self._stamp()
        height, width = self.image.shape[:2]
        raw = Image(height=height, width=width, encoding='bgr8', step=3 * width)
        raw.header.stamp = stamp
        raw.data.frombytes(self.image.tobytes())
        self._image.publish(raw)
        jpeg = CompressedImage(format='jpeg')
        jpeg.header.stamp = stamp
        jpeg.data.frombytes(cv2.imencode('.jpg', self.image)[1].tobytes())
        self._jpeg.publish(jpeg)


class World:
    """Onboard node, mirror arm and scripted backbone, spun by one thread each.

    ``planner`` takes the scripted backbone's place: something with an address that can be stopped.
    """

    def __init__(self, folder: Path, monkeypatch, answers=None, planner=None, **changes):
        monkeypatch.setattr(robot_factory, 'load_decoder', GantryDecoder)
        self.manifest = gantry(folder)
        self.planner = planner or ScriptedPlanner(
            answers or plans(), image_size=(16, 12)
        ).start()
        values = {
            'robot': str(folder / 'manifest.yaml'), 'backbone_address': self.planner.address,
            'process_priority': 0, 'loop_priority': 0, **changes,
        }
        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        overrides = [Parameter(name, value=value) for name, value in values.items()]
        self.node = OnboardNode(context=self.context, parameter_overrides=overrides)
        arm_node = rclpy.create_node('test_arm', context=self.context)
        self.arm = Arm(arm_node, self.manifest, bool(changes.get('use_sim_time')))
        self._executors, self._threads, self._ended = [], [], threading.Event()
        self._nodes = [self.node, arm_node]
        assert start(self.node)
        for entry in self._nodes:
            executor = SingleThreadedExecutor(context=self.context)
            executor.add_node(entry)
            thread = threading.Thread(target=self._spin, args=[executor], daemon=True)
            thread.start()
            self._executors.append(executor)
            self._threads.append(thread)

    def _spin(self, executor):
        # Shutting an executor down from another thread while it spins is a race in rclpy.
        while not self._ended.is_set():
            executor.spin_once(timeout_sec=0.05)

    def close(self):
        """End everything."""
        self._ended.set()
        for executor, thread in zip(self._executors, self._threads, strict=True):
            thread.join(5)
            executor.shutdown()
        self.node.close()
        for node in self._nodes:
            node.destroy_node()
        rclpy.try_shutdown(context=self.context)
        self.planner.stop()

# SPDX-License-Identifier: Apache-2.0
"""The arm node on Gazebo offers what it offers on MuJoCo, and survives the death of gzserver."""

import json
import os
from pathlib import Path
import signal
import subprocess
import sys
import time

import pytest
from sim.arm_pose import HOME, JOINTS

rclpy = pytest.importorskip('rclpy')
pytestmark = [
    pytest.mark.ros, pytest.mark.slow,
    # The parser behind rclpy's type support uses what Python has renamed since.
    pytest.mark.filterwarnings("ignore:module 'sre_:DeprecationWarning"),
]

from builtin_interfaces.msg import Duration  # noqa: E402
from rclpy.qos import DurabilityPolicy, qos_profile_sensor_data, QoSProfile  # noqa: E402
from rosgraph_msgs.msg import Clock  # noqa: E402
from sensor_msgs.msg import CameraInfo, Image, JointState  # noqa: E402
from std_msgs.msg import String  # noqa: E402
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint  # noqa: E402

PATIENCE_S = 120.0


def seconds(stamp):
    """A stamp as a number [s]."""
    return stamp.sec + stamp.nanosec / 1e9


def children(pid):
    """Process ids below a process."""
    threads = Path(f'/proc/{pid}/task').iterdir()
    listed = [child for thread in threads for child in (thread / 'children').read_text().split()]
    return [int(child) for child in listed]


class Listener:
    """A node that keeps the newest message of each topic."""

    def __init__(self, context):
        self.node = rclpy.create_node('listener', context=context)
        self.executor = rclpy.executors.SingleThreadedExecutor(context=context)
        self.executor.add_node(self.node)
        self.newest = {}

    def listen(self, kind, topic, qos=qos_profile_sensor_data):
        """Keep the newest of a topic."""
        self.node.create_subscription(
            kind, topic, lambda message: self.newest.__setitem__(topic, message), qos)

    def until(self, condition):
        """Spin until a condition holds; fails after a long time."""
        end_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end_s, f'heard only {sorted(self.newest)}'
            self.executor.spin_once(timeout_sec=0.05)


@pytest.fixture(scope='module')
def process(gazebo):
    """The node as a process."""
    code = 'from sim.arm_node import main; main()'
    options = ['simulator:=gazebo', 'scene_seed:=7', 'task:=put', 'split:=test', 'use_clock:=true']
    made = subprocess.Popen(
        [sys.executable, '-c', code, '--ros-args', *(x for o in options for x in ('-p', o))],
        stderr=subprocess.PIPE, text=True)
    yield made
    made.send_signal(signal.SIGINT)
    made.communicate(timeout=30)
    assert made.returncode == 0


@pytest.fixture(scope='module')
def heard(process):
    """A listener that has heard the arm."""
    context = rclpy.Context()
    rclpy.init(context=context)
    listener = Listener(context)
    for kind, topic in ((JointState, 'joint_states'), (Image, 'camera/image_raw'),
                        (CameraInfo, 'camera/camera_info'), (Clock, '/clock')):
        listener.listen(kind, topic)
    keep = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    listener.listen(String, 'task/state', keep)
    listener.until(lambda: len(listener.newest) == 5)
    yield listener
    listener.executor.shutdown()
    listener.node.destroy_node()
    rclpy.try_shutdown(context=context)


def test_topics_carry_what_the_other_simulator_sends(heard):
    """Joint names, picture, calibration and truth are those of the arm in MuJoCo."""
    joints, image = heard.newest['joint_states'], heard.newest['camera/image_raw']

    assert tuple(joints.name) == JOINTS
    assert list(joints.position) == pytest.approx(HOME, abs=0.01)
    assert (image.height, image.width, image.encoding) == (256, 256, 'rgb8')
    assert heard.newest['camera/camera_info'].width == 256
    assert json.loads(heard.newest['task/state'].data)['kind'] == 'put'


def test_stamps_are_of_simulated_time(heard):
    """Joints and pictures are stamped with Gazebo's clock, pictures with when they were taken."""
    now_s = seconds(heard.newest['/clock'].clock)

    assert abs(seconds(heard.newest['joint_states'].header.stamp) - now_s) < 0.5
    assert 0 <= now_s - seconds(heard.newest['camera/image_raw'].header.stamp) < 1.0


def test_a_trajectory_moves_the_joints(heard):
    """The controller's topic, as on a real arm."""
    publisher = heard.node.create_publisher(
        JointTrajectory, 'joint_trajectory_controller/joint_trajectory', 1)
    goal = [HOME[0] + 0.2, *HOME[1:]]
    heard.until(lambda: publisher.get_subscription_count() > 0)
    publisher.publish(JointTrajectory(joint_names=list(JOINTS), points=[
        JointTrajectoryPoint(positions=goal, time_from_start=Duration(sec=1))]))

    heard.until(lambda: abs(heard.newest['joint_states'].position[0] - goal[0]) < 0.01)


def test_a_killed_gzserver_is_replaced(heard, process):
    """Joints fall silent, which a robot takes as stale, and come back with the scene's pose."""
    servers = [pid for pid in children(process.pid)
               if 'gzserver' in Path(f'/proc/{pid}/cmdline').read_text()]
    heard.until(lambda: abs(heard.newest['joint_states'].position[0] - HOME[0]) > 0.1)
    os.kill(servers[0], signal.SIGKILL)

    heard.until(lambda: abs(heard.newest['joint_states'].position[0] - HOME[0]) < 0.01)
    assert process.poll() is None

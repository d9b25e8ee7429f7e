# SPDX-License-Identifier: Apache-2.0
"""The node as a process, spoken to with the real rclpy."""

import json
import math
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sim.arm_pose import HOME, JOINTS

rclpy = pytest.importorskip('rclpy')
pytestmark = [
    pytest.mark.ros,
    # The parser behind rclpy's type support uses what Python has renamed since.
    pytest.mark.filterwarnings("ignore:module 'sre_:DeprecationWarning"),
]

from builtin_interfaces.msg import Duration  # noqa: E402
from rclpy.qos import DurabilityPolicy, qos_profile_sensor_data, QoSProfile  # noqa: E402
from rosgraph_msgs.msg import Clock  # noqa: E402
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState  # noqa: E402
from std_msgs.msg import Float64MultiArray, String  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint  # noqa: E402

PATIENCE_S = 60.0


def start_node(*parameters):
    """Start the node as its console entry does."""
    options = [option for p in parameters for option in ('-p', p)]
    code = 'from sim.arm_node import main; main()'
    command = [sys.executable, '-c', code, '--ros-args', *options]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


class Probe:
    """A node that keeps the newest message of each topic."""

    def __init__(self, context):
        self.node = rclpy.create_node('probe', context=context)
        self.executor = rclpy.executors.SingleThreadedExecutor(context=context)
        self.executor.add_node(self.node)
        self.newest = {}

    def listen(self, kind, topic, qos=qos_profile_sensor_data):
        self.node.create_subscription(
            kind, topic, lambda message: self.newest.__setitem__(topic, message), qos
        )

    def until(self, condition):
        """Spin until a condition holds; fails after a long time."""
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            self.executor.spin_once(timeout_sec=0.05)
            if condition():
                return
        raise AssertionError(f'nothing came of it; heard: {sorted(self.newest)}')

    def joint(self, name):
        state = self.newest['joint_states']
        return dict(zip(state.name, state.position, strict=True))[name]

    def is_at(self, name, value):
        return 'joint_states' in self.newest and math.isclose(
            self.joint(name), value, abs_tol=5e-3
        )


@pytest.fixture(scope='module')
def process():
    process = start_node(
        'task:=stack', 'scene_seed:=5', 'use_clock:=true', 'mishap:=blocked'
    )
    yield process
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=PATIENCE_S)
    process.stderr.close()


@pytest.fixture(scope='module')
def probe(process):
    context = rclpy.Context()
    rclpy.init(context=context)
    probe = Probe(context)
    probe.listen(JointState, 'joint_states')
    yield probe
    probe.node.destroy_node()
    context.try_shutdown()


def test_joint_states_name_the_joints(probe):
    """The node publishes all commanded joints by name, at home, with velocities."""
    probe.until(lambda: 'joint_states' in probe.newest)
    state = probe.newest['joint_states']
    assert tuple(state.name) == JOINTS
    assert list(state.position) == pytest.approx(HOME, abs=1e-3)
    assert len(state.velocity) == len(JOINTS)


def test_camera_topics_show_the_same_scene(probe):
    """Raw and compressed pictures are the same up to JPEG, with a calibration of their size."""
    cv2 = pytest.importorskip('cv2')
    topics = ('camera/image_raw', 'camera/image_raw/compressed', 'camera/camera_info')
    for kind, topic in zip((Image, CompressedImage, CameraInfo), topics, strict=True):
        probe.listen(kind, topic)
    probe.until(lambda: all(topic in probe.newest for topic in topics))
    raw, jpeg, info = (probe.newest[topic] for topic in topics)
    assert (raw.encoding, raw.width, raw.height, raw.step) == ('rgb8', 256, 256, 768)
    assert (info.width, info.height) == (256, 256)
    pixels = np.frombuffer(raw.data, np.uint8).reshape(256, 256, 3).astype(int)
    decoded = cv2.imdecode(np.frombuffer(jpeg.data, np.uint8), cv2.IMREAD_COLOR)
    assert np.abs(pixels - decoded[..., ::-1]).mean() < 4


def test_clock_and_stamps_are_simulated_time(probe):
    """With use_clock the stamps follow /clock, which starts at zero."""
    probe.listen(Clock, '/clock')
    probe.until(lambda: '/clock' in probe.newest)
    assert probe.newest['/clock'].clock.sec < 10**6
    stamp = probe.newest['joint_states'].header.stamp
    assert abs(stamp.sec - probe.newest['/clock'].clock.sec) < 9


def test_trajectories_are_followed(probe):
    """A joint trajectory moves the joints it names."""
    topic = 'joint_trajectory_controller/joint_trajectory'
    publisher = probe.node.create_publisher(JointTrajectory, topic, 1)
    probe.until(lambda: publisher.get_subscription_count() > 0)
    point = JointTrajectoryPoint(positions=[1.7], time_from_start=Duration(nanosec=400_000_000))
    publisher.publish(JointTrajectory(joint_names=['elbow_joint'], points=[point]))
    probe.until(lambda: probe.is_at('elbow_joint', 1.7))


def test_bad_messages_change_nothing_and_the_newest_command_wins(probe):
    """A command of the wrong length is ignored, a right one replaces the trajectory."""
    topic = 'forward_position_controller/commands'
    publisher = probe.node.create_publisher(Float64MultiArray, topic, 1)
    probe.until(lambda: publisher.get_subscription_count() > 0)
    publisher.publish(Float64MultiArray(data=[0.0, 0.0]))
    target = [HOME[0] + 0.2, *HOME[1:]]
    publisher.publish(Float64MultiArray(data=target))
    probe.until(lambda: probe.is_at(JOINTS[0], target[0]) and probe.is_at('elbow_joint', HOME[2]))


def test_reset_brings_scene_and_arm_back(probe):
    """The reset service answers with the task, and task/state tells the truth about it."""
    keep = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    probe.listen(String, 'task/state', keep)
    client = probe.node.create_client(Trigger, 'sim_arm/reset')
    probe.until(client.service_is_ready)
    future = client.call_async(Trigger.Request())
    probe.until(future.done)
    assert future.result().success and 'scene 5: stack' in future.result().message
    probe.until(lambda: probe.is_at(JOINTS[0], HOME[0]) and 'task/state' in probe.newest)
    state = json.loads(probe.newest['task/state'].data)
    assert state['kind'] == 'stack' and state['success'] is False
    assert 'tests and demonstrations only' in state['truth_of']


def test_the_person_answers_on_a_topic(probe):
    """A question is heard, answered a moment later, and counted in task/state."""
    probe.listen(String, 'answer', 10)
    publisher = probe.node.create_publisher(String, 'question', 10)
    probe.until(lambda: publisher.get_subscription_count() > 0)
    probe.until(lambda: probe.node.count_publishers('answer') > 0)
    publisher.publish(String(data='please clear the place'))
    probe.until(lambda: 'answer' in probe.newest)
    assert probe.newest['answer'].data == 'yes'
    probe.until(lambda: json.loads(probe.newest['task/state'].data)['questions'] == 1)
    assert json.loads(probe.newest['task/state'].data)['mishap'] == 'blocked'


def test_interrupts_end_the_node_cleanly(probe, process):
    """Two interrupts in a row, as a launch system sends them, end the node without an error."""
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE_S) == 0


def test_parameters_out_of_range_are_refused():
    """A value outside its range stops the start with the range in the message."""
    process = start_node('real_time_factor:=-1.0')
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert 'real_time_factor' in errors


def test_an_unknown_mishap_is_refused():
    """The start ends with the value and the mishaps that there are."""
    process = start_node('mishap:=quake')
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert "'quake'; allowed: none, moved, dropped, blocked, slick, flat" in errors


def test_sigterm_ends_the_node_cleanly():
    """A node that was told to terminate ends without an error."""
    process = start_node('task:=pick')
    assert 'pick' in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=PATIENCE_S) == 0
    process.stderr.close()

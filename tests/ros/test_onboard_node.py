# SPDX-License-Identifier: Apache-2.0
from dataclasses import fields
import json
from pathlib import Path
import signal
import subprocess
import sys
import threading
import time

import cv2
from diagnostic_msgs.msg import DiagnosticArray
import numpy as np
from onboard_decoder import parameters_ros, robot_factory
from onboard_decoder.config import RobotSettings
from onboard_decoder.onboard_node import OnboardNode, start
from protos import plan_pb2
import pytest
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory
import yaml

from tests.fakes.scripted_planner import plan_of, ScriptedPlanner, step
from tests.onboard_decoder.gantry import gantry, GantryDecoder, IMAGE, MirrorArm

pytestmark = [
    pytest.mark.ros,
    # What rclpy imports to know its messages uses modules that Python has deprecated.
    pytest.mark.filterwarnings("ignore:module 'sre_:DeprecationWarning"),
]
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

    def __init__(self, node, manifest):
        self.node, self.mirror = node, MirrorArm(manifest)
        self.mirror.thing_m, self.mirror.thing_below_m = 0.02, 0.05
        self.names = [manifest.joint_names[i] for i in SHUFFLED]
        self.manifest, self.has_joints, self.image = manifest, True, IMAGE
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
        node.create_subscription(DiagnosticArray, '/diagnostics', self.diagnostics.append, 10)
        node.create_timer(0.01, self._publish_joints)
        node.create_timer(0.05, self._publish_image)

    def say(self, text):
        """Give an instruction once somebody listens."""
        self.spin_until(lambda: self._said.get_subscription_count() > 0)
        self.statuses.clear()
        self._said.publish(String(data=text))

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

    def _publish_joints(self):
        if self.has_joints:
            message = JointState(name=self.names)
            message.header.stamp = self.node.get_clock().now().to_msg()
            message.position = [float(self.mirror.positions[i]) for i in SHUFFLED]
            self._joints.publish(message)

    def _publish_image(self):
        stamp = self.node.get_clock().now().to_msg()
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
    """Onboard node, mirror arm and scripted backbone, spun by one thread each."""

    def __init__(self, folder: Path, monkeypatch, answers=None, **changes):
        monkeypatch.setattr(robot_factory, 'load_decoder', GantryDecoder)
        self.manifest = gantry(folder)
        self.planner = ScriptedPlanner(answers or plans(), image_size=(16, 12)).start()
        values = {
            'robot': str(folder / 'manifest.yaml'), 'backbone_address': self.planner.address,
            'process_priority': 0, 'loop_priority': 0, **changes,
        }
        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        overrides = [Parameter(name, value=value) for name, value in values.items()]
        self.node = OnboardNode(context=self.context, parameter_overrides=overrides)
        arm_node = rclpy.create_node('test_arm', context=self.context)
        self.arm = Arm(arm_node, self.manifest)
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


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Make a world; end it after the test."""
    worlds = []

    def made(**changes):
        worlds.append(World(tmp_path, monkeypatch, **changes))
        return worlds[-1]

    yield made
    for world in worlds:
        world.close()


def test_an_instruction_on_a_topic_becomes_a_task_done(make, tmp_path):
    """Words in, motion out, result in the status, stages that add up in the trace file."""
    world = make(latency_path=str(tmp_path / 'run' / 'latency.jsonl'))
    world.arm.say('put it there')

    result = world.arm.result()

    assert (result['outcome'], result['instruction']) == ('done', 'put it there')
    assert np.allclose(world.arm.mirror.positions[:3], world.manifest.home[:3], atol=0.02)
    assert world.planner.turns[0].observation.joint_positions[2] == pytest.approx(0.3)
    world.node.close()
    lines = (tmp_path / 'run' / 'latency.jsonl').read_text().splitlines()
    first = json.loads(lines[0])
    total = sum(v for name, v in first['stages_ns'].items() if name != 'motion_onset')
    assert abs(first['wall_ns'] - total) < 2_000_000
    assert set(first['stages_ns']) >= {'capture', 'encode', 'uplink', 'decoder', 'publish'}


def test_every_trajectory_ends_at_rest(make):
    """A controller that hears nothing more brakes by itself."""
    world = make()
    world.arm.say('put it there')
    world.arm.wait_step('move')

    moving = [t for t in world.arm.trajectories if len(t.points) == 2]
    assert moving
    for trajectory in world.arm.trajectories:
        assert not any(trajectory.points[-1].velocities)
        times = [p.time_from_start.sec + p.time_from_start.nanosec / 1e9
                 for p in trajectory.points]
        assert times == sorted(set(times)) and times[0] > 0


def test_compressed_images_and_plain_positions_work_alike(make):
    """The other camera transport and the other controller, by parameter."""
    world = make(image_transport='compressed', command_interface='forward_position')
    world.arm.say('put it there')

    assert world.arm.result()['outcome'] == 'done'
    assert not world.arm.trajectories


def test_the_stop_service_brakes(make):
    """Stopped is a result, and the arm stays where it came to rest."""
    world = make()
    world.arm.say('put it there')
    world.arm.wait_step('move')
    client = world.arm.node.create_client(Trigger, 'onboard_node/stop')
    assert client.wait_for_service(TIMEOUT_S)

    answer = client.call_async(Trigger.Request())

    world.arm.spin_until(answer.done)
    assert answer.result().success
    assert world.arm.result()['outcome'] == 'stopped'
    world.arm.spin_until(lambda: world.node._runtime.robot.is_at_rest)


def test_a_backbone_killed_in_mid_motion_is_waited_for(make):
    """Commands never pause, the arm holds, and after the restart the task goes on."""
    world = make()
    world.arm.say('put it there')
    world.arm.wait_step('lift')
    loop = world.node._runtime.loop

    world.planner.kill()
    world.arm.spin_until(
        lambda: world.arm.statuses[-1]['faults'].get('server_gone') == 'finish_step')
    world.arm.spin_until(lambda: world.node._runtime.robot.is_at_rest)
    before = loop.statistics().tick_count
    world.arm.spin_until(lambda: loop.statistics().tick_count > before + 50)
    still = np.array(world.arm.mirror.commands[-20:])
    assert np.ptp(still, axis=0).max() < 1e-6
    assert not world.arm.statuses[-1]['result']
    world.planner._script = lambda turn: plans()[1]
    world.planner.start()

    assert world.arm.result()['outcome'] == 'done'
    assert loop.statistics().error_count == 0


def test_joints_that_fall_silent_are_reported_and_braked(make):
    """/diagnostics says error and why."""
    world = make()
    world.arm.say('put it there')
    world.arm.wait_step('move')
    world.arm.has_joints = False

    def task():
        entries = {e.name: e for d in world.arm.diagnostics[-1:] for e in d.status}
        return entries.get('onboard_node: task')

    world.arm.spin_until(lambda: task() and 'joints_stale: brake' in task().message)
    assert task().level == b'\x02'
    world.arm.spin_until(lambda: world.node._runtime.robot.is_at_rest)


def test_a_camera_of_another_size_is_named_in_the_status(make):
    """One sentence with both sizes; the task ends for want of an image."""
    world = make(**{'limits.look_wait_s': 0.5})
    world.arm.image = np.zeros((48, 64, 3), np.uint8)
    world.arm.say('put it there')

    result = world.arm.result()

    assert result['outcome'] == 'failed'
    assert '64x48' in world.arm.statuses[-1]['notice']
    assert '32x24' in world.arm.statuses[-1]['notice']


def test_an_instruction_that_cannot_be_sent_is_refused_and_the_node_lives(make):
    """Ten thousand characters: a notice, no turn, and the next instruction works."""
    world = make()
    world.arm.say('x' * 10_000)
    world.arm.spin_until(
        lambda: world.arm.statuses and '10000 characters' in world.arm.statuses[-1]['notice'])
    assert not world.planner.turns

    world.arm.say('put it there')

    assert world.arm.result()['outcome'] == 'done'


def test_an_inactive_node_commands_nothing_and_can_be_activated_again(make):
    """Deactivate brakes and holds; activate starts at the measured pose."""
    world = make()
    world.arm.say('put it there')
    world.arm.wait_step('move')

    world.node.trigger_deactivate()
    assert world.node._runtime.robot.is_at_rest
    time.sleep(0.1)
    count = len(world.arm.mirror.commands)
    pose = world.arm.mirror.positions.copy()
    time.sleep(0.2)
    assert len(world.arm.mirror.commands) == count
    world.node.trigger_activate()
    world.arm.spin_until(lambda: len(world.arm.mirror.commands) > count + 3)

    assert np.allclose(world.arm.mirror.commands[count], pose, atol=1e-6)


def test_parameters_have_descriptions_and_the_yaml_lists_all_defaults(make, root):
    """config/onboard.yaml, the declarations and the settings say the same."""
    world = make()
    listed = yaml.safe_load((root / 'config' / 'onboard.yaml').read_text())
    listed = listed['/**']['ros__parameters']
    flat = {
        (f'{key}.{name}' if isinstance(value, dict) else key): entry
        for key, value in listed.items()
        for name, entry in (value.items() if isinstance(value, dict) else [('', value)])
    }
    defaults = {name: entry[0] for name, entry in parameters_ros._DECLARED.items()}
    for group in fields(RobotSettings):
        for entry in fields(getattr(RobotSettings(), group.name)):
            defaults[f'{group.name}.{entry.name}'] = entry.default

    assert flat == defaults
    for name in flat:
        assert world.node.describe_parameter(name).description


def run_node(*parameters, code=None):
    """Start the node as a process of its own."""
    code = code or 'import sys; from onboard_decoder.onboard_node import main; sys.exit(main())'
    told = [argument for entry in ('process_priority:=0', 'loop_priority:=0', *parameters)
            for argument in ('-p', entry)]
    return subprocess.Popen(
        [sys.executable, '-c', code, '--ros-args', *told],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize(('parameter', 'words'), [
    ('robot:=no_such_robot', 'robots that come with Tendon'),
    ('command_interface:=velocity', 'joint_trajectory, forward_position'),
    ('robot_id:="a robot"', 'robot_id'),
    ('limits.max_attempts:=0', 'limits.max_attempts'),
])
def test_a_wrong_parameter_ends_the_node_with_one_sentence(parameter, words):
    """Exit status not 0, and the sentence has the value or the allowed ones."""
    node = run_node(parameter)

    output, _ = node.communicate(timeout=TIMEOUT_S)

    assert node.returncode != 0
    assert words in output


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_node_cleanly(tmp_path, number):
    """Even three of them: exit status 0 and no traceback."""
    gantry(tmp_path)
    code = (
        'import sys; from onboard_decoder import onboard_node, robot_factory\n'
        'from tests.onboard_decoder.gantry import GantryDecoder\n'
        'robot_factory.load_decoder = GantryDecoder\n'
        'print("ready", flush=True)\n'
        'sys.exit(onboard_node.main())'
    )
    node = run_node(f'robot:={tmp_path}/manifest.yaml', 'backbone_address:=127.0.0.1:1', code=code)
    assert node.stdout is not None and node.stdout.readline() == 'ready\n'
    time.sleep(1.5)

    for _ in range(3):
        node.send_signal(number)
        time.sleep(0.02)
    output, _ = node.communicate(timeout=TIMEOUT_S)

    assert node.returncode == 0, output
    assert 'Traceback' not in output

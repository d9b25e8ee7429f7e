# SPDX-License-Identifier: Apache-2.0
"""What the launch files would start, started for real, without the real launch."""

import os
from pathlib import Path
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.launch.recording_stand_in import record

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 20.0


def entry_point(executable):
    """Return the command that the console script of this name stands for."""
    scripts = dict(re.findall(r"'(\w+) = ([\w.]+):main'", (ROOT / 'setup.py').read_text()))
    module = scripts[executable.rpartition('/')[2]]
    return [sys.executable, '-c', f'import sys; from {module} import main; sys.exit(main())']


@pytest.fixture
def launched(tmp_path):
    """Arm and robot of sim.launch.py in a namespace, as processes, ended afterwards."""
    # As it is, but without real-time priorities: other tests share these cores.
    parameters = (ROOT / 'config' / 'onboard.yaml').read_text(encoding='utf-8')
    quiet = tmp_path / 'onboard.yaml'
    quiet.write_text(re.sub(r'(process|loop)_priority: \d+', r'\1_priority: 0', parameters))
    recording = record(
        ROOT / 'launch' / 'sim.launch.py', start_backbone='false', namespace='left', seed='3',
        robot_params=str(quiet), backbone_address='127.0.0.1:1', image_topic='camera/image_raw',
    )
    children = {}
    for process in recording.processes:
        command = entry_point(process.executable) + process.command(tmp_path)
        with (tmp_path / f'{process.name}.log').open('wb') as log:
            children[process.name] = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, **recording.environment}, stdout=log,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )
    yield children
    for child in children.values():
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


@pytest.fixture
def listener():
    """A node of the test and how to wait with it."""
    rclpy = pytest.importorskip('rclpy')
    from rclpy.executors import SingleThreadedExecutor

    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node('listener', context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)

    def wait(is_there):
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not is_there() and time.monotonic() < deadline_s:
            executor.spin_once(timeout_sec=0.1)
        return is_there()

    yield node, wait
    executor.shutdown()
    node.destroy_node()
    rclpy.try_shutdown(context=context)


@pytest.mark.ros
@pytest.mark.slow
def test_launched_nodes_meet_on_their_topics(launched, listener, tmp_path):
    """Joints, images and status flow in the namespace, and a SIGINT ends both with status 0."""
    from sensor_msgs.msg import Image, JointState
    from std_msgs.msg import String

    node, wait = listener
    heard = {}
    topics = {'joint_states': JointState, 'camera/image_raw': Image, 'status': String}
    for topic, kind in topics.items():
        node.create_subscription(
            kind, f'/left/{topic}', lambda message, topic=topic: heard.update({topic: message}), 10
        )

    is_all = wait(lambda: set(heard) == set(topics))

    logs = {path.name: path.read_text() for path in tmp_path.glob('*.log')}
    assert is_all, (sorted(heard), logs)
    assert 'gripper_left_finger_joint' in heard['joint_states'].name
    commands = '/left/joint_trajectory_controller/joint_trajectory'
    assert wait(lambda: node.count_publishers(commands) and node.count_subscribers(commands))
    for child in launched.values():
        child.send_signal(signal.SIGINT)
    assert {name: child.wait(STOP_TIMEOUT_S) for name, child in launched.items()} == {
        'onboard_node': 0, 'sim_arm': 0,
    }

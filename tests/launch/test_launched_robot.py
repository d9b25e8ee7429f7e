# SPDX-License-Identifier: Apache-2.0
"""The node of robot.launch.py on an arm with topics of its own and a backbone that speaks TLS."""

from dataclasses import replace
import json
import os
from pathlib import Path
import re
import shutil
import signal
import subprocess
import sys
import time

from cloud_backbone.config import load_config, TlsConfig
import pytest

from tests.fakes.backbone_server import BackboneServer
from tests.fakes.scripted_backbone import ScriptedBackbone
from tests.launch.recording_stand_in import record

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 20.0
CODE = 'import sys; from onboard_decoder.onboard_node import main; sys.exit(main())'


@pytest.fixture
def backbone(tmp_path):
    """A server with a certificate of its own in tmp_path."""
    if shutil.which('openssl') is None:
        pytest.skip('openssl makes the certificate of this test and is not installed')
    pair = {kind: str(tmp_path / f'server.{kind}') for kind in ('pem', 'key')}
    subprocess.run(
        ['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256',
         '-nodes', '-days', '2', '-subj', '/CN=server', '-addext', 'subjectAltName=DNS:localhost',
         '-out', pair['pem'], '-keyout', pair['key']], check=True, capture_output=True)
    config = replace(load_config(None, {}), tls=TlsConfig(pair['pem'], pair['key']))
    with BackboneServer(ScriptedBackbone(), config=config) as server:
        yield server.address.replace('127.0.0.1', 'localhost')


@pytest.fixture
def robot(backbone, tmp_path):
    """The node as launch would start it, but without real-time priorities."""
    text = (ROOT / 'config' / 'onboard.yaml').read_text(encoding='utf-8')
    text = re.sub(r'(process|loop)_priority: \d+', r'\1_priority: 0', text)
    told = tmp_path / 'onboard.yaml'
    told.write_text(text.replace("tls_ca: ''", f'tls_ca: {tmp_path / "server.pem"}'))
    recording = record(
        ROOT / 'launch' / 'robot.launch.py', namespace='cell', robot_params=str(told),
        backbone_address=backbone, joint_states_topic='/joint_states',
        joint_trajectory_controller='scaled_joint_trajectory_controller',
    )
    (process,) = recording.processes
    with (tmp_path / 'node.log').open('wb') as log:
        child = subprocess.Popen(
            [sys.executable, '-c', CODE, *process.command(tmp_path)], cwd=ROOT, stdout=log,
            env={**os.environ, **recording.environment}, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, start_new_session=True)
    yield child
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


@pytest.mark.ros
def test_the_node_uses_the_topics_and_certificates_it_was_told(robot, tmp_path):
    """A session over TLS, commands to the driver's controller, joints from the driver."""
    rclpy = pytest.importorskip('rclpy')
    from rclpy.executors import SingleThreadedExecutor
    from std_msgs.msg import String

    context = rclpy.Context()
    rclpy.init(context=context)
    node, heard = rclpy.create_node('listener', context=context), []
    node.create_subscription(String, '/cell/status', lambda message: heard.append(message), 10)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)

    def is_there():
        return (
            heard and json.loads(heard[-1].data)['link'] == 'ready'
            and node.count_publishers('/cell/scaled_joint_trajectory_controller/joint_trajectory')
            and node.count_subscribers('/joint_states')
        )

    deadline_s = time.monotonic() + START_TIMEOUT_S
    while not is_there() and time.monotonic() < deadline_s and robot.poll() is None:
        executor.spin_once(timeout_sec=0.1)
    assert is_there(), (heard[-1:], (tmp_path / 'node.log').read_text())
    assert not node.count_publishers('/cell/joint_trajectory_controller/joint_trajectory')
    executor.shutdown()
    node.destroy_node()
    rclpy.try_shutdown(context=context)
    robot.send_signal(signal.SIGINT)
    assert robot.wait(STOP_TIMEOUT_S) == 0
